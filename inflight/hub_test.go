// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"testing"
	"time"
)

// TestTakeOverAfterPoll lets the server wait again if a goroutine has polled in the meantime.
func TestTakeOverAfterPoll(t *testing.T) {
	h := &hub{serve: make(chan struct{}, 1), standby: true, patience: time.Hour}
	h.takeover = time.AfterFunc(h.patience, h.takeOver)
	defer h.takeover.Stop()
	h.polled.Store(true)
	h.takeOver()
	if !h.standby || len(h.serve) != 0 {
		t.Errorf("takeOver() after a poll: standby = %v with %d tokens, want true with 0", h.standby, len(h.serve))
	}
	h.takeOver()
	if h.standby || len(h.serve) != 1 {
		t.Errorf("takeOver(): standby = %v with %d tokens, want false with 1", h.standby, len(h.serve))
	}
}

// TestTakeOverAfterWaits lets the server wait again if a wait has ended since the timer was set. Further waits do not
// set the timer, so that a message does not cost a system call.
func TestTakeOverAfterWaits(t *testing.T) {
	h := &hub{serve: make(chan struct{}, 1), standby: true, leading: true, patience: time.Hour}
	h.takeover = time.AfterFunc(h.patience, h.takeOver)
	defer h.takeover.Stop()
	h.resign()
	h.takeover.Stop()
	h.resign()
	if h.takeover.Stop() {
		t.Error("resign() has set the timer, which it had already set")
	}
	h.takeOver()
	if !h.standby || len(h.serve) != 0 || !h.takeover.Stop() {
		t.Errorf("takeOver() after a wait: standby = %v with %d tokens, want true with 0, and the timer set", h.standby, len(h.serve))
	}
	h.takeOver()
	if h.standby || len(h.serve) != 1 {
		t.Errorf("takeOver(): standby = %v with %d tokens, want false with 1", h.standby, len(h.serve))
	}
}

// TestOwe wakes the server for the first operation that no goroutine waits for, and takes no lock for further ones.
func TestOwe(t *testing.T) {
	h := &hub{serve: make(chan struct{}, 1), serving: true, lingers: true}
	h.owe(1)
	if h.lingers || len(h.serve) != 1 {
		t.Errorf("owe(1): lingers = %v with %d tokens, want false with 1", h.lingers, len(h.serve))
	}
	h.mu.Lock()
	h.owe(1)
	h.mu.Unlock()
	if n := h.owed.Load(); n != 2 {
		t.Errorf("owed.Load() = %d, want 2", n)
	}
}

// TestRefillOfAListedQueue refills a receive queue that the hub has listed, as the end of one of its receivers does.
// The queue keeps its place, and so do the queues behind it.
func TestRefillOfAListedQueue(t *testing.T) {
	h := &hub{}
	var queues [3]receives
	for i := range queues {
		rq := &queues[i]
		rq.stopped = true // takes no memory
		rq.place.of = rq
		h.refillLater(rq)
	}
	queues[0].refill()
	h.refillLater(&queues[0])
	h.doWork()
	for i := range queues {
		if queues[i].refilling.Load() {
			t.Errorf("queue %d is still to be refilled", i)
		}
	}
}
