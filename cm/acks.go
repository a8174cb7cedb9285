// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"

	"purerdma/internal/cdev"
)

// acks counts by type the delivered events of an ID or of a membership that have not been
// acknowledged. A program that uses Close acknowledges no event. The ID's mu guards acks.
type acks struct {
	counts []eventCount
	first  [2]eventCount // the initial memory of the field counts
	total  int
	empty  chan struct{} // closed when total is zero, nil without a waiter
}

// eventCount counts the unacknowledged events of one type.
type eventCount struct {
	t EventType
	n int32
}

func (a *acks) add(t EventType) {
	a.total++
	for i := range a.counts {
		// Reuse the slot of a type whose count has dropped to zero.
		if h := &a.counts[i]; h.t == t || h.n == 0 {
			h.t = t
			h.n++
			return
		}
	}
	if a.counts == nil {
		a.counts = a.first[:0]
	}
	a.counts = append(a.counts, eventCount{t, 1})
}

func (a *acks) drop(t EventType) {
	for i := range a.counts {
		if h := &a.counts[i]; h.t == t && h.n > 0 {
			h.n--
			break
		}
	}
	if a.total--; a.total == 0 && a.empty != nil {
		close(a.empty)
		a.empty = nil
	}
}

// deliver counts an event for id, and for its membership, before the event is handed out.
func (id *ID) deliver(ev *Event) {
	ev.owner, ev.heldAs, ev.heldBy = id, ev.Type, ev.Multicast
	id.mu.Lock()
	defer id.mu.Unlock()
	id.recordEvent(ev)
	id.acks.add(ev.heldAs)
	if m := ev.heldBy; m != nil {
		m.acks.add(ev.heldAs)
	}
}

func (id *ID) ack(t EventType, m *Multicast) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.acks.drop(t)
	if m != nil {
		m.acks.drop(t)
	}
}

// waitAcked waits until every event has been acknowledged. If ctx ends first, the error names
// an unacknowledged event.
func (id *ID) waitAcked(ctx context.Context, op string, a *acks) error {
	cdev.NeedContext(ctx)
	id.mu.Lock()
	if a.total == 0 {
		id.mu.Unlock()
		return nil
	}
	if a.empty == nil {
		a.empty = make(chan struct{})
	}
	empty, n := a.empty, a.total
	var one EventType
	for _, h := range a.counts {
		if h.n > 0 {
			one = h.t
		}
	}
	id.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return id.opError(op, fmt.Errorf("not acknowledged: %s: %w", heldText(n, one), cdev.ContextError(ctx)))
	}
}

// heldText returns a text with the number of unacknowledged events and the type of one of
// them.
func heldText(n int, one EventType) string {
	if n == 1 {
		return "one " + one.String()
	}
	return fmt.Sprintf("%d events, %v among them", n, one)
}
