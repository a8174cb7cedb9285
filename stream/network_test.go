// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"net"
	"testing"

	"purerdma/internal/apptest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// onFakes runs a test on the fake kernels.
func onFakes(t *testing.T, test func(t *testing.T, n apptest.Network)) {
	apptest.OnFakes(t, stream.Options{}.WithoutRNR(), test)
}

// inVM is the network of the virtual machine.
var inVM = apptest.InVM(stream.Options{}.WithoutRNR())

// connect dials the server. The cleanup of the test closes the connection.
func connect(t *testing.T, d *stream.Dialer, address string) *stream.Conn {
	t.Helper()
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", address)
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	return c.(*stream.Conn)
}

// serveConn serves the first connection of a listener. stop closes it, and waits until the function returns.
func serveConn(t *testing.T, ln net.Listener, serve func(c net.Conn)) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		defer c.Close()
		serve(c)
	}()
	return func() {
		ln.Close() // ends Accept if there was no connection
		<-done
	}
}
