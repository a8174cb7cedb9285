// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"slices"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// closeGrace is how long Close waits for the kernel. InfiniBand and RoCE need
// microseconds; an iWARP driver may hold DESTROY_ID for ten seconds, which then
// goes on in the background.
const closeGrace = time.Second

// Close destroys the ID in whatever state it is: a connection ends, a request is
// refused, a listener stops (rdma_destroy_id(3)). It does not wait for events to
// be acknowledged. A QP made by CreateQP is destroyed with it, one that was
// attached by UseQP is moved to the error state. It may be called more than once.
func (id *ID) Close() error {
	if first, empty := id.gate.shut(); first {
		id.leak.Done()
		if id.closesAtOnce(empty) {
			id.release()
			return nil
		}
		within(closeGrace, func() {
			<-empty
			id.release()
		})
	}
	return nil
}

// closeOn is Close of an ID that is on ch, and waits as long as it takes: for a
// Migrate that has begun, too.
func (id *ID) closeOn(ch *EventChannel) {
	id.moving.RLock()
	if id.Channel() != ch {
		id.moving.RUnlock()
		return
	}
	first, empty := id.gate.shut()
	id.moving.RUnlock()
	if first {
		id.leak.Done()
		<-empty
		id.release()
	}
}

// within runs fn in a goroutine of its own, and waits for it for d at most.
func within(d time.Duration, fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	grace := time.NewTimer(d)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}

// closesAtOnce reports whether release will not have to wait, so that Close needs
// no goroutine to wait with: none of the ID's commands is in the kernel, DESTROY_ID
// does not wait for the peer as on iWARP, and there is no QP that has to be moved or
// destroyed, which may be in use: what changes one waits for its Close, and that for
// a Batch.
func (id *ID) closesAtOnce(empty <-chan struct{}) bool {
	select {
	case <-empty:
	default:
		return false
	}
	idle := id.qp == nil || !id.ownQP && id.qp.State() == verbs.QPErr
	return idle && id.srq == nil && id.transport() == verbs.TransportIB
}

// release gives up everything that the ID has. Nobody else uses it any more.
func (id *ID) release() {
	ch := id.Channel()
	for _, c := range append(id.left, ch) {
		c.remove(id.uid)
	}
	id.mu.Lock()
	groups := slices.Clone(id.groups) // who leaves one now changes the list
	id.mu.Unlock()
	for _, m := range groups {
		m.forget()
		// A QP that is attached is not destroyed. If the detaching fails, so
		// will that: it has no one to tell.
		_ = m.detach()
	}
	switch {
	case id.ownQP:
		// First the QP, then the ID: while the ID stands the kernel does not
		// give its QP number to a new connection.
		id.qp.Close()
	case id.qp != nil:
		flushQP(id.qp)
	}
	if id.srq != nil {
		id.srq.Close()
	}
	id.quick(ch.file).DestroyID(id.kid)
	if id.dev != nil {
		id.dev.Close()
	}
}

// Destroy is Close that waits, as rdma_destroy_id(3) does, until every event of
// the ID and of its memberships that was delivered has been acknowledged. The ID is
// gone at once in any case; if ctx ends first, the error names an event that is held.
func (id *ID) Destroy(ctx context.Context) error {
	cdev.NeedContext(ctx)
	id.Close()
	return id.waitAcked(ctx, opDestroy, &id.acks)
}
