// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"sync"
	"syscall"
)

// command is one write in the form of functions for a RawConn. It is pooled together with its
// functions.
type command struct {
	b    []byte
	mode Mode
	err  error

	control func(fd uintptr)      // writes
	attempt func(fd uintptr) bool // writes in mode Raw, and reports whether the device had an answer
}

var commands = sync.Pool{New: func() any {
	c := new(command)
	c.control = func(fd uintptr) { c.err = writeAll(fd, c.b, c.mode) }
	c.attempt = func(fd uintptr) bool {
		c.err = writeAll(fd, c.b, Raw) // the device returns EAGAIN and does not wait
		return c.err != syscall.EAGAIN
	}
	return c
}}
