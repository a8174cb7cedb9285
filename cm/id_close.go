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

// closeGrace is how long Close waits for the kernel. InfiniBand and RoCE need
// microseconds; an iWARP driver may hold DESTROY_ID for ten seconds, which then
// goes on in the background.
const closeGrace = time.Second

// Close destroys the ID in whatever state it is: a connection ends, a request is
// refused, a listener stops (rdma_destroy_id(3)). It does not wait for events to
// be acknowledged. A QP made by CreateQP is destroyed with it, one that was
// attached by UseQP is moved to the error state.
//
// It may be called more than once. If the kernel does not destroy the QP, the SRQ or
// the ID, Close returns the error, and the next Close tries that again. It returns nil
// if the kernel takes longer than a second: Close goes on in the background then.
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

// closeOn is Close of an ID that is on ch, and waits as long as it takes: for a
// Migrate that has begun, too.
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

// within runs fn in a goroutine of its own, and waits for it for d at most. It returns
// fn's error, nil if that has not returned by then.
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
	id.mu.Lock() // an earlier Close may be freeing them
	buffers := len(id.buffers)
	id.mu.Unlock()
	idle := id.qp == nil || !id.ownQP && id.qp.State() == verbs.QPErr
	return idle && id.srq == nil && !id.ownPD && buffers == 0 && id.transport() == verbs.TransportIB
}

// closing is how far the Close of an ID has come.
type closing struct {
	failed    atomic.Bool // something is left, which the next Close closes
	mu        sync.Mutex  // of everything below
	unlisted  bool        // no channel and no membership knows the ID
	destroyed bool        // the kernel has no ID
}

// release gives up everything that the ID has, or that an earlier call could not.
// Nobody else uses it any more.
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
		// First the QP, then the ID: while the ID stands the kernel does not
		// give its QP number to a new connection.
		if err := id.qp.Close(); err != nil {
			// At least the device lets go of the memory.
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
		// With its file the kernel has destroyed the ID.
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

// isGone reports whether an error of a command on a QP means that the QP has been
// closed, or its device removed: the device has no memory of it any more.
func isGone(err error) bool {
	var removed *verbs.DeviceRemovedError
	return errors.As(err, &removed) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENODEV)
}

// unlist takes the ID off its channels and out of its multicast groups.
func (id *ID) unlist() {
	id.mu.Lock()
	ch, left := id.ch, id.left
	groups := slices.Clone(id.groups) // who leaves one now changes the list
	id.mu.Unlock()
	ch.remove(id.uid)
	for _, ch := range left {
		ch.remove(id.uid)
	}
	for _, m := range groups {
		m.forget()
		// A QP that is attached is not destroyed. If the detaching fails, so
		// will that: it has no one to tell.
		_ = m.detach()
	}
}

// Destroy is Close that waits, as rdma_destroy_id(3) does, until every event of
// the ID and of its memberships that was delivered has been acknowledged. The ID is
// gone at once in any case; if ctx ends first, the error names an event that is held.
func (id *ID) Destroy(ctx context.Context) error {
	cdev.NeedContext(ctx)
	if err := id.Close(); err != nil {
		return err
	}
	return id.waitAcked(ctx, opDestroy, &id.acks)
}
