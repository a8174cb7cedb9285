// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"purerdma/internal/cdev"
	"purerdma/internal/leak"
	"purerdma/uverbs"
)

// CompChannel is a completion event channel: one file descriptor by which any
// number of CQs wake their waiters (ibv_create_comp_channel(3)).
type CompChannel struct {
	dev   *shared
	ch    *uverbs.CompChannel
	users users
	leak  *leak.Entry

	// turn holds one token while somebody reads the channel: a waiter of one of
	// the CQs, who hands the others their events.
	turn      chan struct{}
	interrupt func()    // ch.Interrupt, made once
	hook      cdev.Hook // of Next
	// arms is an upper bound of how many events the channel can hold or get
	// without another arm: each arm gives at most one.
	arms atomic.Int64
	// look is what the reader does before it parks, and its result.
	look struct {
		cq     *CQ
		wcs    []WC
		waiter *Waiter // or nil
		n      int
		err    error
		fn     func() uverbs.Verdict
	}

	mu    sync.Mutex
	added map[*CQ]struct{} // armed, and got completions without an event since the last Next
}

// CreateCompChannel makes a completion channel. The caller closes it.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	if err := d.hold(); err != nil {
		return nil, d.opError("create completion channel on", err)
	}
	k, err := d.file.CreateCompChannel()
	if err != nil {
		d.unref()
		return nil, d.opError("create completion channel on", err)
	}
	ch := &CompChannel{
		dev:       d.shared,
		ch:        k,
		leak:      leak.Track("completion channel", d.info.Name),
		turn:      make(chan struct{}, 1),
		interrupt: k.Interrupt,
		added:     make(map[*CQ]struct{}),
	}
	ch.look.fn = ch.armAndLook
	return ch, nil
}

// Device returns the device of the channel, which need not be closed.
func (ch *CompChannel) Device() *Device { return ch.dev.self }

// Close closes the channel, at once or with the Close of the last CQ on it, which then
// returns the error of both. New CQs fail with net.ErrClosed. Close may be called more than
// once: after an error it tries again.
func (ch *CompChannel) Close() error {
	return ch.dev.opError("close completion channel of", ch.users.close(func() error {
		return ch.ch.Close()
	}, func() error {
		ch.hook.Close()
		ch.leak.Done()
		return ch.dev.unref()
	}))
}

// Next waits for the event of any CQ that was armed with CQ.Arm and returns that
// CQ (ibv_get_cq_event(3); there is nothing to acknowledge). It is for a
// goroutine that serves many CQs: arm them all, poll them all, then Next, Arm
// and Poll in turn. Do not mix it with CQ.Wait on the same channel: each would
// take events that the other waits for.
func (ch *CompChannel) Next(ctx context.Context) (*CQ, error) {
	cq, err := ch.next(ctx)
	return cq, ch.dev.opError("wait for completion event of", err)
}

func (ch *CompChannel) next(ctx context.Context) (*CQ, error) {
	cdev.NeedContext(ctx)
	select {
	case ch.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, cdev.ContextError(ctx)
	}
	defer func() { <-ch.turn }()
	ch.hook.Set(ctx, ch.interrupt)
	for {
		if ctx.Err() != nil {
			return nil, cdev.ContextError(ctx)
		}
		// Whatever is added from now on interrupts the Next below.
		if cq := ch.takeAdded(); cq != nil {
			return cq, nil
		}
		handle, _, err := ch.ch.Next(nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			ch.ch.Resume()
			continue
		}
		if err != nil {
			return nil, ch.dev.eventError(err)
		}
		if cq := ch.fired(handle); cq != nil {
			return cq, nil
		}
	}
}

// takeAdded returns a CQ that was armed and got a completion without an event, nil
// if there is none.
func (ch *CompChannel) takeAdded() *CQ {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for cq := range ch.added {
		delete(ch.added, cq)
		return cq
	}
	return nil
}

// fired notes that an event was read and returns the CQ that it names, nil if
// that has been closed. Only who holds the turn calls it.
func (ch *CompChannel) fired(handle uint64) *CQ {
	cq, _ := ch.dev.objects.find(handle).(*CQ)
	if cq == nil || cq.ch != ch {
		return nil
	}
	cq.fired()
	return cq
}

// armAndLook is what the reader does once it cannot miss an event any more, and when it is
// woken: it arms its queue, if that is not armed, and looks into it. The event that woke
// it for what it finds stays unread, and the queue armed, until the next wait that finds
// nothing: a system call less between the completion and who waits for it.
func (ch *CompChannel) armAndLook() uverbs.Verdict {
	l := &ch.look
	// Nothing can be in the channel if nothing was armed before.
	empty := ch.arms.Load() == 0
	if l.n, l.err = l.cq.armAndPoll(l.wcs, l.waiter); l.n > 0 || l.err != nil {
		return uverbs.Stop
	}
	if empty {
		return uverbs.Park
	}
	return uverbs.ReadFirst
}
