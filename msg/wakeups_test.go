// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"testing"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestOneWakeup makes small calls between two ends that sleep while they wait. Their own requests and replies wake them
// seldom, because most have no completion.
func TestOneWakeup(t *testing.T) {
	const calls = 400
	o := msg.Options{Spin: -1}
	c, s := pair(t, streamconntest.MLX5(t), ends{o, o})
	go serve(s)
	before := [2]uint64{wakeups(c), wakeups(s)}
	for i := range calls {
		check(t, streamconntest.Deadline(t), c, uint64(i), pattern(i, 64))
	}
	for i, x := range []*msg.Conn{c, s} {
		if n := wakeups(x) - before[i]; n > calls*5/4 {
			t.Errorf("end %d: wake-ups of %d calls = %d, want at most %d", i, calls, n, calls*5/4)
		}
	}
}

func wakeups(c *msg.Conn) uint64 { return c.QP().RecvCQ().Stats().Wakeups }
