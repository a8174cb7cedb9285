// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// closeGrace bounds how long Close waits for the kernel. InfiniBand and RoCE need microseconds.
// An iWARP driver may hold DESTROY_ID for ten seconds. The command then continues in the
// background.
const closeGrace = time.Second

// Close destroys the ID in any state (rdma_destroy_id(3)). It ends a connection, refuses a
// request, and stops a listener. It does not wait for events to be acknowledged. It destroys a
// QP that was made by CreateQP, and moves a QP that was attached by UseQP to the error state.
//
// It may be called more than once. If the kernel does not destroy the QP, the SRQ or the ID,
// Close returns the error, and the next Close tries again. If the kernel takes longer than a
// second, Close returns nil and continues in the background.
func (id *ID) Close() error {
	first, empty := id.shut()
	switch {
	case first:
		id.leak.Done()
	case !id.close.failed.Load():
		return nil
	}
	if id.closesAtOnce(empty) {
		return id.release()
	}
	return within(closeGrace, func() error {
		<-empty
		return id.release()
	})
}

// closeOn is Close of an ID that is on ch, without a bound on the wait. It also waits for a
// Migrate that has begun.
func (id *ID) closeOn(ch *EventChannel) error {
	id.moving.RLock()
	if id.Channel() != ch {
		id.moving.RUnlock()
		return nil
	}
	first, empty := id.shut()
	id.moving.RUnlock()
	if !first {
		return nil
	}
	id.leak.Done()
	<-empty
	return id.release()
}

// within runs fn in its own goroutine, and waits for it for at most d. It returns fn's error,
// or nil if fn has not returned by then.
func within(d time.Duration, fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	grace := time.NewTimer(d)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		return nil
	}
}

// closesAtOnce reports whether release will not have to wait, so that Close needs no goroutine
// to wait with. That is the case if none of the ID's commands is in the kernel, and DESTROY_ID
// does not wait for the peer as on iWARP. There must also be no QP to move or destroy, because
// it may be in use. A call that changes a QP waits for the QP's Close, and that Close waits for
// a Batch.
func (id *ID) closesAtOnce(empty <-chan struct{}) bool {
	select {
	case <-empty:
	default:
		return false
	}
	id.mu.Lock() // an earlier Close may be freeing them
	buffers := len(id.buffers)
	id.mu.Unlock()
	idle := id.qp == nil || !id.ownQP && id.qp.State() == verbs.QPErr
	return idle && id.srq == nil && !id.ownPD && buffers == 0 && id.transport() == verbs.TransportIB
}

// closing holds the progress of the Close of an ID.
type closing struct {
	failed    atomic.Bool                 // something is left, which the next Close closes.
	slot      atomic.Pointer[connectSlot] // of an attempt to connect over iWARP, nil without one.
	mu        sync.Mutex                  // guards the fields below.
	unlisted  bool                        // no channel and no membership lists the ID.
	destroyed bool                        // the kernel has destroyed the ID
}

// release releases everything that the ID has, or that an earlier call could not release. No
// other goroutine uses the ID any more.
func (id *ID) release() error {
	c := &id.close
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unlisted {
		c.unlisted = true
		id.unlist()
	}
	var errs []error
	failed := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case id.ownQP:
		// Close the QP before the ID. While the ID exists, the kernel does not assign its QP
		// number to a new connection.
		if err := id.qp.Close(); err != nil {
			// At least the device releases the memory.
			failed(err)
			failed(flushQP(id.qp))
		}
	case id.qp != nil:
		if err := flushQP(id.qp); err != nil && !isGone(err) {
			failed(err)
		}
	}
	if id.srq != nil {
		failed(id.srq.Close())
	}
	kept := id.expired.Load() && !id.ended.Load()
	if len(errs) == 0 && !kept {
		failed(id.closeBuffers())
	}
	if id.ownPD {
		failed(id.pd.Close())
	}
	if !c.destroyed {
		id.mu.Lock()
		file := id.file()
		id.mu.Unlock()
		_, err := file.DestroyID(id.kid)
		id.vacate()
		// The kernel has destroyed the ID with its file.
		if c.destroyed = err == nil || errors.Is(err, net.ErrClosed); !c.destroyed {
			failed(err)
		}
	}
	if id.dev != nil {
		failed(id.dev.Close())
	}
	err := errors.Join(errs...)
	if c.failed.Store(err != nil || kept); err != nil {
		return id.opError(opDestroy, err)
	}
	return nil
}

// isGone reports whether an error of a command on a QP means that the QP has been closed, or
// its device removed. In both cases the device has no memory of the QP any more.
func isGone(err error) bool {
	var removed *verbs.DeviceRemovedError
	return errors.As(err, &removed) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENODEV)
}

// unlist removes the ID from its channels and from its multicast groups.
func (id *ID) unlist() {
	id.mu.Lock()
	ch, left := id.ch, id.left
	groups := slices.Clone(id.groups) // a concurrent Leave changes the list
	id.mu.Unlock()
	ch.remove(id.uid)
	for _, ch := range left {
		ch.remove(id.uid)
	}
	for _, m := range groups {
		m.forget()
		// The kernel does not destroy an attached QP. If the detach fails, the destruction of
		// the QP will also fail. This method cannot return the error.
		_ = m.detach()
	}
}

// Destroy is Close with a wait, as in rdma_destroy_id(3), until every delivered event of the ID
// and of its memberships has been acknowledged. The ID is destroyed at once in any case. If ctx
// ends first, the error names an unacknowledged event.
func (id *ID) Destroy(ctx context.Context) error {
	cdev.NeedContext(ctx)
	if err := id.Close(); err != nil {
		return err
	}
	return id.waitAcked(ctx, opDestroy, &id.acks)
}
