// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"errors"
	"net"

	"purerdma/cm"
)

// CheckNetwork returns a net.UnknownNetworkError unless the network is "tcp", "tcp4" or "tcp6".
func CheckNetwork(network string) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return nil
	}
	return net.UnknownNetworkError(network)
}

// OpError converts an error of package cm to a *net.OpError with the same addresses and cause.
func OpError(op string, err error) *net.OpError {
	oe := &net.OpError{Op: op, Net: "rdma", Err: err}
	if e, ok := errors.AsType[*cm.OpError](err); ok {
		oe.Err = e.Err
		if e.Local.IsValid() {
			oe.Source = e.Local
		}
		if e.Remote.IsValid() {
			oe.Addr = e.Remote
		}
	}
	return oe
}
