// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"slices"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
)

// States of a call.
const (
	callUnused    = iota
	callWaiting   // for the answer
	callAbandoned // the caller no longer waits, and the answer has not arrived
	callAnswered  // the caller has the answer
)

// call is a call in progress. Its number is used again when the answer has arrived and was freed. So
// there is a receive for each answer, and the peer can always send it. Conn.mu guards it.
type call struct {
	waiter
	number uint32
	state  int
	// cancelling is set while the call is in sender.cancels.
	cancelling bool
}

// calls are the calls of a Conn. Conn.mu guards them.
type calls struct {
	all     []*call // by number
	unused  []*call
	waiting fifo.Queue[*waiter] // for an unused call
}

// RemoteError is the failure of a call, which the peer has sent instead of a reply.
type RemoteError struct {
	// Reason is the text of Message.Fail. It is empty if the peer has freed the request without an
	// answer.
	Reason string
}

func (e *RemoteError) Error() string {
	if e.Reason == "" {
		return "the peer has not answered the request"
	}
	return "the peer reports: " + e.Reason
}

// Call sends a request with a tag and waits for the reply. It copies data, of at most MaxLen bytes. The
// reply is in the memory of its receive, and belongs to the caller. Message.Free releases it. At most
// Options.Calls calls are in progress at a time, each until its reply is freed. Further calls wait.
//
// If ctx ends first, Call returns its error. The peer may have executed the request, or may still
// execute it. Its handler can see the cancellation in Message.Context. The connection goes on. If the
// peer answers by Message.Fail, the error wraps a *RemoteError. Other errors are as in Send.
func (c *Conn) Call(ctx context.Context, tag uint64, data []byte) (*Message, error) {
	cdev.NeedContext(ctx)
	m, err := c.call(ctx, tag, data)
	if err != nil {
		return nil, c.opError(opCall, err)
	}
	return m, nil
}

func (c *Conn) call(ctx context.Context, tag uint64, data []byte) (*Message, error) {
	buf, err := c.buffer(ctx, data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cl, err := c.takeCall(ctx)
	if err != nil {
		freeBuf(buf)
		return nil, err
	}
	if err := c.takeCredit(ctx); err != nil {
		freeBuf(buf)
		c.putCall(cl)
		return nil, err
	}
	cl.state = callWaiting
	c.post(&frame{kind: kindRequest, call: cl.number, tag: tag}, data, buf)
	if err := c.wait(ctx, &cl.waiter); err != nil {
		cl.state = callAbandoned
		if !cl.cancelling {
			cl.cancelling = true
			c.send.cancels.Push(cl)
		}
		c.pump()
		if c.send.cancels.Len() > 0 && c.send.canceller == nil && c.err == nil {
			c.send.canceller = c.getWaiter()
			go c.awaitCancels()
		}
		return nil, err
	}
	m, err := cl.message, cl.err
	if err != nil {
		c.putCall(cl)
	}
	return m, err
}

// takeCall returns an unused call. It waits while there is none. The caller holds the lock, which
// takeCall releases while it waits.
func (c *Conn) takeCall(ctx context.Context) (*call, error) {
	s := &c.calls
	switch n := len(s.unused); {
	case c.err != nil:
		return nil, c.err
	case n > 0:
		cl := s.unused[n-1]
		s.unused = s.unused[:n-1]
		return cl, nil
	case len(s.all) < c.opts.Calls:
		cl := &call{waiter: waiter{signal: c.newSignal()}, number: uint32(len(s.all))}
		s.all = append(s.all, cl)
		return cl, nil
	}
	w := c.getWaiter()
	s.waiting.Push(w)
	err := c.wait(ctx, w)
	cl := w.call
	if err != nil {
		s.waiting.Remove(slices.Index(s.waiting.All(), w))
	} else {
		err = w.err
	}
	c.putWaiter(w)
	return cl, err
}

// putCall takes back a call whose answer was freed. The caller holds the lock.
func (c *Conn) putCall(cl *call) {
	s := &c.calls
	cl.state = callUnused
	cl.reset()
	if s.waiting.Len() > 0 {
		w := s.waiting.Pop()
		w.call = cl
		w.finish()
		return
	}
	s.unused = append(s.unused, cl)
}

// awaitCancels polls until all cancellations have been sent. Otherwise the last ones could wait for a frame
// that no goroutine takes.
func (c *Conn) awaitCancels() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.send.canceller
	for c.err == nil && c.send.cancels.Len() > 0 {
		if err := c.wait(context.Background(), w); err != nil {
			c.fail(err) // the CQ cannot be polled
		}
		w.reset()
	}
	c.send.canceller = nil
	c.putWaiter(w)
}

// cancel sends the cancellation of a call, unless its answer has arrived. The caller holds the lock.
func (c *Conn) cancel(cl *call) {
	cl.cancelling = false
	if cl.state == callAbandoned {
		c.send.cancelling = true
		c.post(&frame{kind: kindCancel, call: cl.number}, nil, nil)
	}
}

// answered takes the answer to a call. The caller holds the lock.
func (c *Conn) answered(f *frame, in *inflight.Message) error {
	s := &c.calls
	if uint64(f.call) >= uint64(len(s.all)) {
		return violation("it answers the call %d, which does not exist", f.call)
	}
	switch cl := s.all[f.call]; cl.state {
	case callAbandoned:
		in.Free()
		c.putCall(cl)
	case callWaiting:
		cl.state = callAnswered
		if f.kind == kindFailure {
			cl.err = &RemoteError{Reason: string(in.Bytes()[headerLen:])}
			in.Free()
		} else {
			cl.message = c.newMessage(f, in)
			cl.message.call = cl
		}
		cl.finish()
	default:
		return violation("it answers the call %d, which is not in progress", f.call)
	}
	return nil
}

// fail ends the calls that wait, and the waits for calls. The caller holds the lock of the Conn.
func (s *calls) fail(err error) {
	for _, cl := range s.all {
		if cl.state == callWaiting {
			cl.state = callAnswered
			cl.failed(err)
		}
	}
	for s.waiting.Len() > 0 {
		s.waiting.Pop().failed(err)
	}
}
