// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
	"purerdma/internal/mem"
	"purerdma/pool"
	"purerdma/verbs"
)

// sender is the part of a Conn that sends. Conn.mu guards it.
type sender struct {
	payload int    // most data bytes of a frame. It does not change
	window  uint32 // most credits. It does not change
	// most bounds the operations in flight that do not bind a window. Only a peer that does not receive
	// exceeds it. It does not change.
	most int
	// granted counts the credits that the peer has granted, and sent counts the used ones. reserved
	// counts the credits of goroutines that are about to send.
	granted, sent, reserved uint32
	// grants counts the frames of kind kindCredit that were sent, and confirmed counts the frames of this
	// kind that the peer has confirmed.
	grants, confirmed uint32
	// cancelling is set until the answer to a cancellation has arrived. canceller is the goroutine of
	// awaitCancels, nil if there is none.
	cancelling bool
	canceller  *waiter

	waiting fifo.Queue[*waiter] // for credits
	cancels fifo.Queue[*call]   // to be cancelled
	// mores has the calls for whose parts there are free receives. granting is set until the answer to
	// a frame of kind kindMore has arrived.
	mores    fifo.Queue[*call]
	granting bool
	// greeting is set if the peer waits for the first frame.
	greeting bool
	scratch  [maxInline]byte // a frame that is posted inline
	failed   bool            // a send has failed
}

// maxInline is the length in bytes of the longest frame that is copied to the send queue, if the device allows it. Such
// a frame needs no memory of the pool, and the device reads no other memory for it.
const maxInline = 160

// credits returns the number of frames that can be sent.
func (s *sender) credits() int { return int(s.granted - s.sent - s.reserved) }

// pollEvery is the number of frames after which the send CQ is polled, which frees their memory.
const pollEvery = 16

// Send sends a one-way message with a tag. It copies data, of at most MaxLen bytes. Send waits until the
// peer has room for the message, and not until the device has sent it. Later failures end the
// connection. The messages of one goroutine arrive in their order, and so do its calls.
//
// The error is the error of ctx if that ends before there is room. It wraps syscall.EMSGSIZE if data is longer than
// MaxLen, net.ErrClosed after Close, and otherwise the reason for the end of the connection.
func (c *Conn) Send(ctx context.Context, tag uint64, data []byte) error {
	cdev.NeedContext(ctx)
	buf, err := c.buffer(ctx, data)
	if err != nil {
		return c.opError(opSend, err)
	}
	c.mu.Lock()
	defer c.unlock()
	if err := c.takeCredit(ctx); err != nil {
		freeBuf(buf)
		return c.opError(opSend, err)
	}
	c.post(&frame{kind: kindMessage, tag: tag}, data, buf)
	return nil
}

// pollSends takes the completions of sends now and then. The caller holds no lock.
func (c *Conn) pollSends() {
	if c.unpolled.Load() >= pollEvery {
		c.unpolled.Store(0)
		_ = c.queue.Poll() // an error shows in the next wait
	}
}

// buffer returns memory for a frame with a copy of data. It returns nil if the frame needs none. It
// waits while the pool has no memory. It fails if ctx has ended.
func (c *Conn) buffer(ctx context.Context, data []byte) (*pool.Buf, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if len(data) > c.send.payload {
		return nil, fmt.Errorf("%d bytes, the peer takes at most %d: %w", len(data), c.send.payload, syscall.EMSGSIZE)
	}
	c.pollSends()
	size := headerLen + len(data)
	if size <= c.inline {
		return nil, nil
	}
	b, err := c.pool.TryGet(size)
	if errors.Is(err, pool.ErrExhausted) {
		c.memoryStalls.Add(1)
		if err := c.awaitSends(ctx); err != nil {
			return nil, err
		}
		b, err = c.pool.Get(ctx, size)
	}
	if err != nil {
		return nil, err
	}
	copy(b.Bytes()[headerLen:], data)
	return b, nil
}

// ended returns the error of a context that has ended. Calls that send check it first, because they do not
// wait if there are credits and memory.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return cdev.ContextError(ctx)
}

func freeBuf(b *pool.Buf) {
	if b != nil {
		b.Free()
	}
}

// awaitSends waits until the frames that were posted so far have been sent, and their memory is free.
func (c *Conn) awaitSends(ctx context.Context) error {
	op, err := c.queue.Start(ctx, &verbs.SendWR{Opcode: verbs.OpWrite}, nil)
	if err != nil {
		return err
	}
	defer op.Abandon()
	return op.Wait(ctx)
}

// takeCredit reserves a credit for a message or a request. It waits while there is none. The caller holds
// the lock, which takeCredit releases while it waits.
func (c *Conn) takeCredit(ctx context.Context) error {
	s := &c.send
	switch {
	case c.err != nil:
		return c.err
	case s.waiting.Len() == 0 && s.credits() > 0 && !c.mute:
		s.reserved++
		return nil
	}
	c.stats.CreditStalls++
	w := c.getWaiter()
	s.waiting.Push(w)
	err := c.wait(ctx, w)
	switch {
	case err != nil:
		s.waiting.Remove(slices.Index(s.waiting.All(), w))
	case c.err != nil: // possibly after the credit was reserved
		err = c.err
	}
	c.putWaiter(w)
	return err
}

// pump sends the frames without data that are due and possible, and lets waiting goroutines send. The
// caller holds the lock.
func (c *Conn) pump() {
	s := &c.send
	for c.err == nil && !c.mute {
		switch {
		case s.waiting.Len() > 0 && s.credits() > 0:
			s.reserved++
			s.waiting.Pop().finish()
		case !s.cancelling && s.cancels.Len() > 0:
			c.cancel(s.cancels.Pop())
		case !s.granting && s.mores.Len() > 0:
			c.grantParts(s.mores.Pop())
		case s.grants == s.confirmed && (c.recv.due() || s.greeting):
			c.post(&frame{kind: kindCredit}, nil, nil)
		default:
			if s.canceller != nil && s.cancels.Len() == 0 {
				s.canceller.finish()
			}
			c.reads.grant()
			c.writes.grant()
			return
		}
	}
}

// post puts a frame into the queue. unlock posts it. post takes over buf, which has the data unless it is nil. The
// caller holds the lock and has checked that there is a credit.
func (c *Conn) post(f *frame, data []byte, buf *pool.Buf) {
	s, r := &c.send, &c.recv
	s.greeting = false
	if f.kind.takesCredit() {
		s.sent++
		s.reserved--
	}
	if f.kind == kindCredit {
		s.grants++
	}
	f.length, f.sent, f.granted, f.confirmed = len(data), s.sent, r.granted(), r.grants
	r.announced, r.owed, r.confirmed = f.granted, 0, f.confirmed
	wr := verbs.SendWR{Opcode: verbs.OpSend}
	var sg [1]verbs.SGE
	var hold inflight.Holder
	if buf == nil {
		f.put(s.scratch[:])
		wr.InlineData = s.scratch[:headerLen+copy(s.scratch[headerLen:], data)]
	} else {
		f.put(buf.Bytes())
		sg[0] = buf.SGE()
		wr.SGList, hold = mem.NoEscape(sg[:]), buf
	}
	c.unpolled.Add(1)
	c.queued = true
	if err := c.queue.Enqueue(&wr, hold, c.failed); err != nil {
		c.fail(err) // the QP was closed
	}
}
