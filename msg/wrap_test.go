// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"sync"
	"testing"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestWrap sends messages and makes calls while the counts of credits and of grants wrap around.
func TestWrap(t *testing.T) {
	onSizes(t, func(t *testing.T, c, s *msg.Conn) {
		const count = 300 // more than two windows, so that grants need frames of their own
		msg.NearWrap(c, s)
		ctx := streamconntest.Deadline(t)
		for _, pipe := range [][2]*msg.Conn{{c, s}, {s, c}} {
			var sent sync.WaitGroup
			sent.Go(func() {
				for i := range count {
					if err := pipe[0].Send(ctx, uint64(i), nil); err != nil {
						t.Errorf("Send(%d) = %v", i, err)
						return
					}
				}
			})
			for i := range count {
				m, err := pipe[1].Receive(ctx)
				if err != nil || m.Tag() != uint64(i) {
					t.Errorf("Receive() = %v, %v, want message %d", m, err, i)
					closed(t, pipe[0]) // ends Send
					sent.Wait()
					return
				}
				m.Free()
			}
			sent.Wait()
		}
		go serve(s)
		go serve(c)
		for i := range 10 {
			check(t, ctx, c, uint64(i), pattern(i, 20))
			check(t, ctx, s, uint64(i), pattern(i, 20))
		}
		for _, x := range []*msg.Conn{c, s} {
			if !x.Wrapped() {
				t.Error("Wrapped() = false, want true")
			}
		}
	})
}
