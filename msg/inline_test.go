// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestInline sends messages that fit into the send queue of each device, and longer ones. Only the longer ones take
// memory of the pool.
func TestInline(t *testing.T) {
	const inline, count = 160 - msg.HeaderLen, 10
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		for _, x := range []struct {
			size int
			gets uint64
		}{{0, 0}, {64, 0}, {inline, 0}, {inline + 1, count}} {
			before := c.Pool().Stats().Gets
			for i := range count {
				if err := c.Send(streamconntest.Deadline(t), uint64(i), pattern(i, x.size)); err != nil {
					t.Fatalf("Send() of %d bytes = %v", x.size, err)
				}
			}
			if got := c.Pool().Stats().Gets - before; got != x.gets {
				t.Errorf("pieces of the pool for %d messages of %d bytes = %d, want %d", count, x.size, got, x.gets)
			}
			takeMessages(t, s, count, x.size)
		}
	})
}

// takeMessages receives messages with the pattern of their number.
func takeMessages(t *testing.T, c *msg.Conn, count, size int) {
	t.Helper()
	for i := range count {
		m, err := c.Receive(streamconntest.Deadline(t))
		if err != nil {
			t.Fatalf("Receive() of message %d of %d bytes = %v", i, size, err)
		}
		if string(m.Bytes()) != string(pattern(i, size)) || m.Tag() != uint64(i) {
			t.Errorf("Receive() = tag %d and %d bytes, want message %d of %d bytes", m.Tag(), len(m.Bytes()), i, size)
		}
		m.Free()
	}
}
