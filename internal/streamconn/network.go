// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"errors"
	"net"

	"purerdma/cm"
)

// Network returns the network for package cm. name is "tcp", "tcp4", "tcp6" or "rdma". A cm.Addr has the network "rdma". Programs
// dial the network and the text of a net.Addr, such as the remote address of a connection. For other names the error is a
// net.UnknownNetworkError.
func Network(name string) (string, error) {
	switch name {
	case "tcp", "tcp4", "tcp6":
		return name, nil
	case cm.Addr{}.Network():
		return "tcp", nil
	}
	return "", net.UnknownNetworkError(name)
}

// OpError converts an error of package cm to a *net.OpError with the same addresses and cause. It is
// temporary if the process is out of file descriptors or memory.
func OpError(op string, err error) *net.OpError {
	oe := &net.OpError{Op: op, Net: "rdma", Err: err}
	if e, ok := errors.AsType[*cm.OpError](err); ok {
		if oe.Err = e.Err; e.Temporary() && !e.Timeout() {
			oe.Err = temporaryError{e.Err}
		}
		if e.Local.IsValid() {
			oe.Source = e.Local
		}
		if e.Remote.IsValid() {
			oe.Addr = e.Remote
		}
	}
	return oe
}

// temporaryError is the cause of a temporary error. A *net.OpError calls Temporary of its direct cause only.
type temporaryError struct{ error }

func (e temporaryError) Unwrap() error { return e.error }

// Temporary implements the method that net.OpError looks for.
func (temporaryError) Temporary() bool { return true }
