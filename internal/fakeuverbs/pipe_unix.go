// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fakeuverbs

import "syscall"

func fd(n int) int { return n }

// pipe returns a non-blocking pipe, which serves as an event file for the poller.
func pipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(p[:]); err != nil {
		return 0, 0, err
	}
	for _, n := range p {
		syscall.CloseOnExec(n)
		if err := syscall.SetNonblock(n, true); err != nil {
			syscall.Close(p[0])
			syscall.Close(p[1])
			return 0, 0, err
		}
	}
	return p[0], p[1], nil
}
