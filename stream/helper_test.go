// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// server is the address of the first device of a fake kernel, with any port.
const server = "10.0.0.1:0"

// onPairs runs a test on connections between fake devices of each kind.
func onPairs(t *testing.T, o ends, test func(t *testing.T, c, s streamconntest.Conn)) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, o)
		test(t, c, s)
	})
}

// ends are the options of both sides.
type ends struct {
	dial    stream.Options
	listen  stream.Options
	private bool
}

func listen(t testing.TB, k *cmtest.Kernel, o ends) net.Listener {
	t.Helper()
	lc := stream.ListenConfig{Options: o.listen.WithoutRNR(), Private: o.private, CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func dial(t testing.TB, k *cmtest.Kernel, o stream.Options, ln net.Listener) *stream.Conn {
	t.Helper()
	d := stream.Dialer{Options: o.WithoutRNR(), CM: cm.Dialer{Host: k.Host()}}
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	return c.(*stream.Conn)
}

func accept(t testing.TB, ln net.Listener) *stream.Conn {
	t.Helper()
	defer context.AfterFunc(streamconntest.Deadline(t), func() { ln.Close() })()
	c, err := ln.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	return c.(*stream.Conn)
}

// pair connects two streams. The cleanup of the test closes them.
func pair(t testing.TB, k *cmtest.Kernel, o ends) (client, server *stream.Conn) {
	t.Helper()
	ln := listen(t, k, o)
	client = dial(t, k, o.dial, ln)
	return client, accept(t, ln)
}
