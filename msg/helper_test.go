// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// server is the address of the first device of a fake kernel, with any port.
const server = "10.0.0.1:0"

// ends are the options of both sides.
type ends struct{ dial, listen msg.Options }

// sizes are options of both sides that all tests of transfers use.
var sizes = map[string]ends{
	"default": {},
	"least":   {msg.Options{Slot: 256, Window: 1, Calls: 1}, msg.Options{Slot: 256, Window: 1, Calls: 1}},
	"unequal": {msg.Options{Slot: 1000, Window: 2, Calls: 40}, msg.Options{Slot: 9000, Window: 20, Calls: 2}},
}

// onSizes runs a test on all machines with all sizes.
func onSizes(t *testing.T, test func(t *testing.T, client, server *msg.Conn)) {
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) {
			streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
				c, s := pair(t, k, o)
				test(t, c, s)
			})
		})
	}
}

func listen(t testing.TB, k *cmtest.Kernel, o msg.Options) *msg.Listener {
	t.Helper()
	lc := msg.ListenConfig{Options: o.ForTests(), CM: cm.ListenConfig{Host: k.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func dial(t testing.TB, k *cmtest.Kernel, o msg.Options, ln *msg.Listener) *msg.Conn {
	t.Helper()
	d := msg.Dialer{Options: o.ForTests(), CM: cm.Dialer{Host: k.Host()}}
	c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

func accept(t testing.TB, ln *msg.Listener) *msg.Conn {
	t.Helper()
	c, err := ln.Accept(streamconntest.Deadline(t))
	if err != nil {
		t.Fatalf("Accept() = %v", err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

// closed closes a connection and checks the error.
func closed(t testing.TB, c *msg.Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// pair connects two sides. The end of the test closes them.
func pair(t testing.TB, k *cmtest.Kernel, o ends) (client, server *msg.Conn) {
	t.Helper()
	ln := listen(t, k, o.listen)
	client = dial(t, k, o.dial, ln)
	return client, accept(t, ln)
}

// apart connects the second device of a kernel to a listener on the first one. The end of the test closes both
// sides.
func apart(t testing.TB, k *cmtest.Kernel, ln *msg.Listener, o msg.Options) (client, server *msg.Conn) {
	t.Helper()
	local, err := cm.ParseAddr("10.0.0.2:0")
	if err != nil {
		t.Fatalf("ParseAddr() = %v", err)
	}
	d := msg.Dialer{Options: o.ForTests(), CM: cm.Dialer{Host: k.Host(), LocalAddr: local}}
	client, err = d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	t.Cleanup(func() { closed(t, client) })
	return client, accept(t, ln)
}

// serve answers each request, on a goroutine of its own, with its tag plus 1 and its bytes in reverse
// order. It ends with the connection.
func serve(c *msg.Conn) {
	for {
		m, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer m.Free()
			if m.IsRequest() {
				_ = m.Reply(context.Background(), m.Tag()+1, reversed(m.Bytes())) // the connection may have ended
			}
		}()
	}
}

func reversed(b []byte) []byte {
	r := make([]byte, len(b))
	for i, x := range b {
		r[len(b)-1-i] = x
	}
	return r
}

// pattern returns n bytes that depend on seed.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed*7 + i*13 + i>>8)
	}
	return b
}

// check makes a call of serve and checks the reply.
func check(t testing.TB, ctx context.Context, c *msg.Conn, tag uint64, data []byte) {
	t.Helper()
	m, err := c.Call(ctx, tag, data)
	if err != nil {
		t.Errorf("Call(%d, %d bytes) = %v", tag, len(data), err)
		return
	}
	defer m.Free()
	if m.Tag() != tag+1 || !bytes.Equal(m.Bytes(), reversed(data)) || m.IsRequest() {
		t.Errorf("Call(%d, %d bytes) = reply with tag %d and %d bytes, want tag %d and the bytes in reverse", tag, len(data), m.Tag(), len(m.Bytes()), tag+1)
	}
}
