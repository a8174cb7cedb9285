// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"sync"
	"syscall"
)

// command is one write, in the form that a RawConn takes: functions. It serves again,
// and they with it.
type command struct {
	b     []byte
	write func(fd uintptr, b []byte) error
	err   error

	control func(fd uintptr)      // writes
	attempt func(fd uintptr) bool // writes quickly, and says whether the device had an answer
}

var commands = sync.Pool{New: func() any {
	c := new(command)
	c.control = func(fd uintptr) { c.err = c.write(fd, c.b) }
	c.attempt = func(fd uintptr) bool {
		c.err = writeQuick(fd, c.b) // which answers EAGAIN rather than wait
		return c.err != syscall.EAGAIN
	}
	return c
}}
