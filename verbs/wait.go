// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"purerdma/internal/cdev"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Wait is Poll that waits until there is a completion. First it polls for a short time (SetSpin),
// then it sleeps on the completion channel. A sleeping Wait occupies no thread, only its goroutine.
// It returns the error of ctx when that ends first (os.ErrDeadlineExceeded if its deadline passed).
// Completions that are already in the queue are returned even then. If the CQ is empty because it
// lost completions, all waiters get ErrOverrun, and so do later calls.
//
// Any number of goroutines may wait on one CQ, and on several CQs of one channel. Each completion
// goes to one of them.
//
// A wait allocates nothing if its context is the context of the CQ's last wait that slept, or can
// never end. That context keeps a reference to the CQ until a wait with another context, or until
// the CQ is closed.
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	cdev.NeedContext(ctx)
	n, err := c.poll(wcs, nil)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		n, err = c.wait(ctx, wcs, nil)
	}
	return n, c.dev.opError("wait for completions of", err)
}

// No wait sleeps while its queue has completions, for these reasons.
//
// A completion in an armed queue causes an event. Each arm causes one event, regardless of the
// number of completions that follow. One goroutine at a time reads the events of a channel. This
// reader holds the channel's turn. It is a waiter of one of the CQs. For an event of another CQ it
// puts a token into the notify channel of that CQ.
//
// A waiter sleeps only after it has found its queue armed and then empty. The next completion
// causes an event. Only the reader consumes events, so the reader wakes up or wakes the waiter. The
// reader arms and polls after it has got the turn, because another reader may have consumed the
// event before. It also does so after the poller has begun to watch the channel, because the poller
// reports only changes.
//
// A waiter that leaves with some completions may leave others in the queue. Their event may be
// consumed or unread, and the queue may be no longer armed. So it passes a token to the remaining
// waiters. A waiter that is the reader needs no token, because a completion that came after it
// polled causes an event that it has yet to read.
//
// A CQ that overruns puts a token into notify once. So a waiter checks for an overrun after it was
// counted in waiters. Then it finds the overrun or the token, or a leaving waiter wakes it.

// wait is Wait without the first poll, for the leader if l is not nil.
func (c *CQ) wait(ctx context.Context, wcs []WC, l *leader) (n int, err error) {
	switch {
	case ctx.Err() != nil:
		return 0, cdev.ContextError(ctx)
	case c.ch == nil:
		return 0, errNoEvents
	case len(wcs) == 0:
		return 0, syscall.EINVAL
	case c.overrun.Load():
		return c.pollAfterOverrun(wcs, l)
	}
	c.waits.Add(1)
	start := c.spin.start()
	defer c.spin.learn(start)
	if n, err = c.spin.poll(ctx, c, l, start, wcs); n > 0 || err != nil {
		return n, err
	}
	c.waiters.Add(1)
	defer c.leave()

	ch := c.ch
	reading := ch.tryTurn()
	for !reading {
		if n, err = c.armAndPoll(wcs, l); n > 0 || err != nil {
			return n, err
		}
		if c.overrun.Load() {
			return c.pollAfterOverrun(wcs, l)
		}
		select {
		case ch.turn <- struct{}{}:
			reading = true
			continue
		case <-c.notify:
		case <-l.stopped():
		case <-ctx.Done():
			return 0, cdev.ContextError(ctx)
		case <-c.done:
			return 0, net.ErrClosed
		case <-c.dev.removed:
			return 0, net.ErrClosed
		}
		if n, err = c.poll(wcs, l); n > 0 || err != nil {
			return n, err
		}
	}

	defer ch.endRead()
	r := &ch.reader
	r.cq, r.wcs, r.leader = c, wcs, l
	// A late interrupt may reach the next reader, which checks everything and goes on.
	c.hook.Set(ctx, ch.interrupt)
	for {
		// The causes of an interrupt exist before it, so after Resume they are visible here.
		select {
		case <-c.done:
			return 0, net.ErrClosed
		default:
		}
		if ctx.Err() != nil {
			return 0, cdev.ContextError(ctx)
		}
		if c.overrun.Load() {
			return c.pollAfterOverrun(wcs, l)
		}
		err = ch.file.ReadDone(ch.conn.Read(r.read), r.read)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			ch.file.Resume()
			continue
		case err != nil:
			return 0, c.dev.eventError(err)
		case r.polled:
			return r.n, r.err
		case errors.Is(r.err, io.ErrUnexpectedEOF):
			ch.eventLost()
		case r.err != nil:
			return 0, c.dev.eventError(r.err)
		case r.event == c.handle:
			c.eventRead()
			if n, err = c.poll(wcs, l); n > 0 || err != nil {
				return n, err
			}
		default:
			if other := ch.eventOf(r.event); other != nil {
				other.wake()
			}
		}
	}
}

// leave ends the wait of one goroutine. It leaves the remaining completions to the others.
func (c *CQ) leave() {
	if c.waiters.Add(-1) > 0 {
		c.wake()
	}
}

// wake makes one waiter poll the queue.
func (c *CQ) wake() {
	select {
	case c.notify <- struct{}{}:
	default:
	}
}

// armAndPoll makes sure that the next completion causes an event, and then polls for
// earlier completions.
func (c *CQ) armAndPoll(wcs []WC, l *leader) (int, error) {
	c.armMu.Lock()
	if !c.armed {
		// The lock is held until the kernel has armed the CQ, because a waiter that finds armed set
		// and the queue empty may sleep.
		c.countArm()
		if err := c.p.Arm(false); err != nil {
			c.armMu.Unlock()
			return 0, err
		}
		c.armed = true
	}
	c.armMu.Unlock()
	return c.poll(wcs, l)
}

// reader holds the arguments and results of a read of the channel's file by the goroutine that has
// the turn. They are fields because a closure would be allocated.
type reader struct {
	cq     *CQ // nil for CompChannel.Next
	wcs    []WC
	leader *leader // or nil
	read   func(fd uintptr) bool

	polled bool // n and err are the results of a poll
	n      int
	event  uint64 // unless polled: the user handle in the event that was read
	err    error
}

// tryTurn makes the caller the reader of the channel, if there is none.
func (ch *CompChannel) tryTurn() bool {
	select {
	case ch.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// interruptReader interrupts the reader of the channel, if there is one. The caller has recorded the
// reason, which a later reader finds after it has taken the turn. Without a reader, the turn takes
// less time than an interrupt.
func (ch *CompChannel) interruptReader() {
	if ch.tryTurn() {
		<-ch.turn
		return
	}
	ch.interrupt()
}

// endRead releases the turn.
func (ch *CompChannel) endRead() {
	ch.reader.cq, ch.reader.wcs, ch.reader.leader = nil, nil, nil
	<-ch.turn
}

// read arms the reader's queue and polls it, and if that is empty reads an event. The poller calls
// it after it has begun to watch the file, and when the file has become readable. It returns false
// if there is neither.
//
// An event of the reader's own queue stays unread when the poll finds its completion, and the queue
// stays armed, until the next wait that finds the queue empty. This saves a system call between the
// completion and the waiting goroutine.
func (ch *CompChannel) read(fd uintptr) bool {
	r := &ch.reader
	r.polled = false
	if r.cq != nil {
		// Without an arm there is no event in the channel.
		empty := ch.arms.Load() == 0
		if r.n, r.err = r.cq.armAndPoll(r.wcs, r.leader); r.n > 0 || r.err != nil {
			r.polled = true
			return true
		}
		if empty {
			return false
		}
	}
	var again bool
	r.event, again, r.err = uverbs.ReadCompEvent(fd)
	return !again
}

// eventOf records that an event was read and returns the CQ that it names, nil if that has been
// closed. Only the reader calls it.
func (ch *CompChannel) eventOf(handle uint64) *CQ {
	cq, _ := ch.dev.objects.find(handle).(*CQ)
	if cq == nil || cq.ch != ch {
		return nil
	}
	cq.eventRead()
	return cq
}

// eventOf records that an event of this CQ was read.
func (c *CQ) eventRead() {
	c.wakeups.Add(1)
	c.armMu.Lock()
	defer c.armMu.Unlock()
	c.disarmed()
	if c.arms > 0 {
		c.arms--
		c.ch.arms.Add(-1)
	}
}

// disarmed records that the CQ must be armed again. The caller holds armMu.
func (c *CQ) disarmed() {
	if p, ok := c.p.(provider.EventCounter); ok {
		p.Event()
	}
	c.armed = false
}

// eventLost records that the event of an unknown CQ of the channel was lost. It could be any of the
// armed ones. Their waiters arm them again and poll, and Next returns them.
//
// Each armed CQ counts the event. A provider makes a sequence number of the count, and arms with
// it. A number that is skipped is harmless, but an arm with the number of an event that has come
// is ignored. The CQ's arms stay an upper bound, because one event or none has come.
func (ch *CompChannel) eventLost() {
	for _, cq := range ch.dev.objects.cqsOf(ch) {
		cq.armMu.Lock()
		lost := cq.arms > 0
		if lost {
			cq.disarmed()
		}
		cq.armMu.Unlock()
		if lost {
			cq.wakeAfterAdd()
		}
	}
}
