// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"net"
	"testing"
)

// DialAddrs dials the network and the text of a listener's address, and then of the connection's remote address.
func DialAddrs(t *testing.T, addr net.Addr, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	for range 2 {
		c, err := dial(Deadline(t), addr.Network(), addr.String())
		if err != nil {
			t.Fatalf("DialContext(%q, %q): %v", addr.Network(), addr, err)
		}
		defer Abort(c.(Conn))
		addr = c.RemoteAddr()
	}
}
