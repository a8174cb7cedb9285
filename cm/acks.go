// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"slices"

	"purerdma/internal/cdev"
)

// acks counts the events of an ID, or of a membership, that were delivered and
// not acknowledged. It is guarded by the ID's mu.
type acks struct {
	held  []EventType
	empty chan struct{} // closed when nothing is held any more; nil if nobody waits
}

// deliver counts an event that is about to be handed out.
func (id *ID) deliver(ev *Event, a *acks) {
	ev.owner, ev.acks = id, a
	id.mu.Lock()
	defer id.mu.Unlock()
	a.held = append(a.held, ev.Type)
}

func (id *ID) ack(t EventType, a *acks) {
	id.mu.Lock()
	defer id.mu.Unlock()
	i := slices.Index(a.held, t)
	a.held = slices.Delete(a.held, i, i+1)
	if len(a.held) == 0 && a.empty != nil {
		close(a.empty)
		a.empty = nil
	}
}

// waitAcked waits until nothing is held; if ctx ends first, the error names an
// event that is.
func (id *ID) waitAcked(ctx context.Context, op string, a *acks) error {
	id.mu.Lock()
	if len(a.held) == 0 {
		id.mu.Unlock()
		return nil
	}
	if a.empty == nil {
		a.empty = make(chan struct{})
	}
	empty, n, held := a.empty, len(a.held), a.held[0]
	id.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return id.opError(op, fmt.Errorf("%d events are not acknowledged, %v among them: %w", n, held, cdev.ContextError(ctx)))
	}
}
