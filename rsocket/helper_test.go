// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"context"
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

// server is the address of the first device of a fake kernel, and a port.
const server = "10.0.0.1:7471"

// onPairs runs a test on connections between fake devices of each kind.
func onPairs(t *testing.T, opts rsocket.Options, test func(t *testing.T, c, s streamconntest.Conn)) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, opts)
		test(t, c, s)
	})
}

// listen listens on the first device.
func listen(t *testing.T, k *cmtest.Kernel, opts rsocket.Options) net.Listener {
	t.Helper()
	lc := rsocket.ListenConfig{Options: opts, CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// pair connects two rsockets. The cleanup of the test closes them.
func pair(t *testing.T, k *cmtest.Kernel, opts rsocket.Options) (client, server *rsocket.Conn) {
	t.Helper()
	ln := listen(t, k, opts)
	d := rsocket.Dialer{Options: opts, CM: cm.Dialer{Host: k.Host()}}
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Errorf("DialContext: %v", err)
		}
		dialed <- c
	}()
	s := accept(t, ln)
	c := <-dialed
	if c == nil {
		t.FailNow()
	}
	client = c.(*rsocket.Conn)
	t.Cleanup(func() { streamconntest.Abort(client) })
	return client, s
}

// accept accepts one connection. The cleanup of the test closes it.
func accept(t *testing.T, ln net.Listener) *rsocket.Conn {
	t.Helper()
	defer context.AfterFunc(streamconntest.Deadline(t), func() { ln.Close() })()
	c, err := ln.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	s := c.(*rsocket.Conn)
	t.Cleanup(func() { streamconntest.Abort(s) })
	return s
}
