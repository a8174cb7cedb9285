// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"io"
	"testing"
	"time"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
	"purerdma/verbs"
)

// TestStats compares the counts of a connection with the bytes that it carries.
func TestStats(t *testing.T) {
	onPairs(t, rsocket.Options{}, func(t *testing.T, client, server streamconntest.Conn) {
		c := client.(*rsocket.Conn)
		for _, end := range []streamconntest.Conn{client, server} {
			end.SetDeadline(time.Now().Add(streamconntest.Limit))
		}
		written := func() uint64 {
			sends := c.Stats().QP.Sends
			return sends[verbs.OpWrite].Bytes + sends[verbs.OpWriteImm].Bytes
		}
		before := written()
		buf := make([]byte, 5000)
		if n, err := c.Write(buf); n != len(buf) || err != nil {
			t.Fatalf("Write() = %d, %v, want %d, nil", n, err, len(buf))
		}
		if _, err := io.ReadFull(server, buf); err != nil {
			t.Fatalf("io.ReadFull: %v", err)
		}
		if n := written() - before; n != uint64(len(buf)) {
			t.Errorf("Stats() = %d bytes of WRITEs, want %d", n, len(buf))
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if s := c.Stats(); s.QP.Doorbells == 0 || s.SendCQ.Completions[verbs.WCSuccess] == 0 {
			t.Errorf("Stats() after Close = %+v, want doorbells and completions", s)
		}
	})
}
