// SPDX-License-Identifier: Apache-2.0

package cdev

import "time"

// Park is Wait for a caller who brings a queue and a way to be told of the end
// of its contexts: it waits until try returns true, and ends with
// os.ErrDeadlineExceeded when Interrupt is called, or was called and Resume was
// not. It allocates nothing, and the first try runs after the poller has begun
// to watch: what becomes readable during it is not missed when it returns false.
func (f *File) Park(try func(fd uintptr) bool) error {
	return f.read(try)
}

// Interrupt ends the Park that runs, and those to come until Resume.
func (f *File) Interrupt() { f.f.SetReadDeadline(time.Unix(1, 0)) }

// Resume ends the effect of Interrupt.
func (f *File) Resume() { f.f.SetReadDeadline(time.Time{}) }
