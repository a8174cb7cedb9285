// SPDX-License-Identifier: Apache-2.0

// Package tooltest has the listener with which the tests of the programs make Accept fail.
package tooltest

import (
	"net"
)

// FailingListener is a net.Listener whose Accept first returns Errs in turn, and then accepts from Listener.
type FailingListener struct {
	net.Listener // may be nil if no call follows Errs
	Errs         []error
}

// Accept implements net.Listener.
func (ln *FailingListener) Accept() (net.Conn, error) {
	if len(ln.Errs) == 0 {
		return ln.Listener.Accept()
	}
	err := ln.Errs[0]
	ln.Errs = ln.Errs[1:]
	return nil, &net.OpError{Op: "accept", Err: err}
}

// Close implements net.Listener.
func (ln *FailingListener) Close() error {
	if ln.Listener == nil {
		return nil
	}
	return ln.Listener.Close()
}
