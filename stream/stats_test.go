// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"testing"
	"time"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestStats fills the window of the peer, which stalls the sender, and compares the counts of both sides
// with the frames of the test.
func TestStats(t *testing.T) {
	o := ends{dial: stream.Options{Slot: 256, Window: 4}, listen: stream.Options{Slot: 256, Window: 4}, private: true}
	onPairs(t, o, func(t *testing.T, client, server streamconntest.Conn) {
		c, s := client.(*stream.Conn), server.(*stream.Conn)
		c.SetDeadline(time.Now().Add(streamconntest.Limit))
		s.SetDeadline(time.Now().Add(streamconntest.Limit))
		if n := c.Stats().CreditStalls; n != 0 {
			t.Errorf("Conn.Stats = %d credit stalls before data, want 0", n)
		}
		const frames = 8 // more than the window
		write(t, c, frames)
		settle(t, c, s)
		if n := c.Stats().CreditStalls; n == 0 {
			t.Errorf("Conn.Stats = 0 credit stalls with a full window, want some")
		}
		for range frames {
			read(t, s, true)
		}
		settle(t, c, s)
		sent, received := c.Stats(), s.Stats()
		if got := sent.Sent; got.Bytes != frames*payload || got.Operations < frames {
			t.Errorf("Conn.Stats = %+v sent, want %d bytes in at least %d frames", got, frames*payload, frames)
		}
		if got := received.Received; got.Bytes != frames*payload {
			t.Errorf("Conn.Stats = %+v received, want %d bytes", got, frames*payload)
		}
		if sent.Conn.Operations.Started < sent.Sent.Operations {
			t.Errorf("Conn.Stats = %d operations, want at least the %d frames", sent.Conn.Operations.Started, sent.Sent.Operations)
		}
	})
}
