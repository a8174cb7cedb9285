// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"syscall"
	"testing"
)

// TestStatsOfAnEarlyEnd has a connection end and fail before it is counted as open. Events during Accept and Dial can have
// this effect. Both are counted, once.
func TestStatsOfAnEarlyEnd(t *testing.T) {
	ch, _ := newFakeChannel(t)
	ep := newEndpoint(ch, newFakeID(t, ch))
	count := ch.counters()
	ep.end = End{Event: EventDisconnected}
	ep.finished.Store(true)
	ep.countEnd(ep.end.endCounter)
	ep.giveUp(&BrokenError{Err: syscall.EIO})
	if count.peer.Load() != 0 || count.broken.Load() != 0 {
		t.Errorf("ends, failures before the connection is counted = %d, %d, want 0, 0", count.peer.Load(), count.broken.Load())
	}
	ep.countOpen()
	ep.countEnd(closedCounter)
	ep.countBroken()
	if count.peer.Load() != 1 || count.closed.Load() != 0 || count.broken.Load() != 1 {
		t.Errorf("ends by the peer, by Close, failures = %d, %d, %d, want 1, 0, 1", count.peer.Load(), count.closed.Load(), count.broken.Load())
	}
}
