// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
)

// stream is the part of a call that takes the parts of its answer. Conn.mu guards it.
type stream struct {
	parts fifo.Queue[*Message] // not yet taken
	left  int                  // parts that the peer can send
	owed  int                  // freed parts that were not granted again
	// granting is set while the call is in sender.mores.
	granting bool
}

// reset prepares the stream for another call. A call that is in sender.mores stays there.
func (s *stream) reset() { s.left, s.owed = 0, 0 }

// Replies are the replies to one call. One goroutine at a time uses them.
type Replies struct {
	conn *Conn
	call *call // nil after the last reply
	lent []*Loan
	err  error // after the last reply
}

// Stream makes a call with several replies, which Replies.Next returns. The peer sends parts by
// Message.ReplyPart. Its Message.Reply or Message.Fail comes after them. At most Request.Parts parts are on
// their way or not freed. So a slow program stops only the sender of this stream. The receives of the stream
// come out of Options.Calls. ctx bounds the wait until the request is sent.
//
// Memory of the Request is lent until Next has returned the last reply or an error of the call, or until
// Close. The caller calls Close, or Next until it returns an error.
func (c *Conn) Stream(ctx context.Context, r *Request) (*Replies, error) {
	cdev.NeedContext(ctx)
	if r.Parts < 1 || r.Parts >= c.opts.Calls {
		return nil, c.opError(opCall, errNoParts)
	}
	if err := ended(ctx); err != nil { // before the device binds windows
		return nil, c.opError(opCall, err)
	}
	f, data, lent, err := c.prepare(r)
	if err != nil {
		return nil, c.opError(opCall, err)
	}
	buf, err := c.buffer(ctx, data)
	var cl *call
	if err == nil {
		c.mu.Lock()
		cl, err = c.begin(ctx, &f, data, buf)
		c.unlock()
	}
	if err != nil {
		if failed := c.takeBack(lent, c.patience(ctx)); failed != nil {
			err = failed
		}
		return nil, c.opError(opCall, err)
	}
	return &Replies{conn: c, call: cl, lent: lent}, nil
}

// Next waits for the next reply. The replies come in the order in which the peer sent them. The caller
// frees them. After the last one, Next returns io.EOF. If the peer ends the call by Message.Fail, the error
// wraps a *RemoteError. If ctx ends first, Next returns its error, and the call goes on.
func (r *Replies) Next(ctx context.Context) (*Message, error) {
	cdev.NeedContext(ctx)
	if r.call == nil {
		return nil, r.err
	}
	c := r.conn
	m, last, err := c.next(ctx, r.call)
	if err != nil && !last {
		return nil, c.opError(opCall, err)
	}
	if !last {
		return m, nil
	}
	r.call, r.err = nil, io.EOF
	if failed := c.takeBack(r.lent, c.patience(ctx)); failed != nil {
		if err == nil {
			m.Free()
		}
		m, err = nil, failed
	}
	if err != nil {
		r.err = c.opError(opCall, err)
		return nil, r.err
	}
	return m, nil
}

// next takes the next reply of a call. last is set if the call has ended.
func (c *Conn) next(ctx context.Context, cl *call) (m *Message, last bool, err error) {
	c.mu.Lock()
	defer c.unlock()
	for {
		switch {
		case cl.stream.parts.Len() > 0:
			return cl.stream.parts.Pop(), false, nil
		case cl.state == callAnswered:
			m, err = cl.message, cl.err
			c.finishCall(cl)
			return m, true, err
		}
		cl.waiter.again()
		if err := c.wait(ctx, &cl.waiter); err != nil {
			return nil, false, err
		}
	}
}

// Close cancels the call if it has not ended, and drops the replies that Next has not returned. Then the peer
// can no longer reach the memory of the Request. Like Conn.Do, it may wait for the peer. Close may be
// called more than once.
func (r *Replies) Close() error {
	cl, c := r.call, r.conn
	if cl == nil {
		return nil
	}
	r.call, r.err = nil, c.opError(opCall, net.ErrClosed)
	c.mu.Lock()
	var dropped []*Message
	for cl.stream.parts.Len() > 0 {
		dropped = append(dropped, cl.stream.parts.Pop())
	}
	c.abandon(cl, len(r.lent) > 0)
	c.unlock()
	for _, m := range dropped {
		m.Free()
	}
	if err := c.takeBack(r.lent, c.opts.grace); err != nil {
		return c.opError(opCall, err)
	}
	return nil
}

// takePart takes a part of the answer to a call. The caller holds the lock.
func (c *Conn) takePart(f *frame, in *inflight.Message) error {
	s := &c.calls
	if uint64(f.call) >= uint64(len(s.all)) {
		return violation("it sends a part of the call %d, which does not exist", f.call)
	}
	cl := s.all[f.call]
	switch {
	case cl.state == callUnused || cl.state == callAnswered:
		return violation("it sends a part of the call %d, which is not in progress", f.call)
	case cl.stream.left == 0:
		return violation("a part of the call %d without a credit", f.call)
	}
	cl.stream.left--
	if cl.state != callWaiting {
		in.Free()
		return nil
	}
	m := c.newMessage(f, in)
	m.call = cl
	cl.held++
	cl.stream.parts.Push(m)
	c.grantLater(cl)
	cl.finish()
	return nil
}

// freed takes back a reply or a part without references. The caller holds the lock.
func (c *Conn) freed(m *Message) {
	cl := m.call
	cl.held--
	if m.kind == kindPart && !cl.over {
		cl.stream.owed++
		c.grantLater(cl)
	}
	c.putCall(cl)
}

// grantLater lets the peer send further parts if it has no credit left, or if many receives are free. The
// caller holds the lock, and calls pump.
func (c *Conn) grantLater(cl *call) {
	s := &cl.stream
	if s.granting || s.owed == 0 || cl.state != callWaiting || s.left > 0 && s.owed < cl.units/2 {
		return
	}
	s.granting = true
	c.send.mores.Push(cl)
}

// grantParts sends the credits for further parts of a call, unless it has ended. The caller holds the lock.
func (c *Conn) grantParts(cl *call) {
	s := &cl.stream
	s.granting = false
	if cl.state != callWaiting || s.owed == 0 {
		return
	}
	n := s.owed
	s.owed, s.left = 0, s.left+n
	c.send.granting = true
	c.post(&frame{kind: kindMore, call: cl.number, tag: uint64(n)}, nil, nil)
}

// takeMore takes credits for parts of an answer. The caller holds the lock.
func (c *Conn) takeMore(f *frame) error {
	if uint64(f.call) >= uint64(len(c.recv.open)) {
		return violation("it takes parts of the call %d, and has %d", f.call, len(c.recv.open))
	}
	if m := c.recv.open[f.call]; m != nil { // otherwise the answer is on its way
		if f.tag == 0 || f.tag > uint64(m.maxCredits-m.credits) {
			return violation("%d further parts, at most %d are possible", f.tag, m.maxCredits-m.credits)
		}
		m.credits += int(f.tag)
		m.wakeParts()
	}
	c.post(&frame{kind: kindMoreTaken}, nil, nil)
	return nil
}

var errNoStream = fmt.Errorf("the request is for one reply: %w", syscall.EINVAL)

// MaxParts returns the number of parts that can be on their way to the caller or not freed by it. It is 0 if
// the message is not a request for a stream of replies.
func (m *Message) MaxParts() int { return m.maxCredits }

// ReplyPart sends a part of the answer to a request of Conn.Stream. Reply or Fail ends the answer. ReplyPart
// waits until the caller has room. If the caller cancels the call, it fails with context.Canceled. It is
// otherwise like Reply.
func (m *Message) ReplyPart(ctx context.Context, tag uint64, data []byte) error {
	cdev.NeedContext(ctx)
	c := m.conn
	buf, err := c.buffer(ctx, data)
	if err == nil {
		c.mu.Lock()
		defer c.unlock()
		if err = m.takePartCredit(ctx); err != nil {
			freeBuf(buf)
		}
	}
	if err != nil {
		return c.opError(opReply, err)
	}
	c.post(&frame{kind: kindPart, call: m.number, tag: tag}, data, buf)
	return nil
}

// takePartCredit waits for a credit for a part. The caller holds the lock, which takePartCredit releases
// while it waits.
func (m *Message) takePartCredit(ctx context.Context) error {
	c := m.conn
	for {
		switch {
		case m.kind == kindRequest && m.maxCredits == 0:
			return errNoStream
		default:
			if err := c.transferable(m); err != nil {
				return err
			}
		}
		if m.credits > 0 {
			m.credits--
			return nil
		}
		w := c.getWaiter()
		m.waiting.Push(w)
		err := c.wait(ctx, w)
		if err != nil {
			m.waiting.Remove(slices.Index(m.waiting.All(), w))
		}
		c.putWaiter(w)
		if err != nil {
			return err
		}
	}
}

// wakeParts wakes the goroutines that wait for a credit. The caller holds the lock of the connection.
func (m *Message) wakeParts() {
	for m.waiting.Len() > 0 {
		m.waiting.Pop().finish()
	}
}
