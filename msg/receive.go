// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"io"
	"slices"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
)

// receiver is the part of a Conn that receives. Conn.mu guards it.
type receiver struct {
	messages fifo.Queue[*Message] // not yet taken
	waiting  fifo.Queue[*waiter]  // calls of Receive, if there are no messages
	// open has the requests that were not answered, by the number of their call.
	open []*Message

	// window is the number of receives for messages and requests. Each belongs to an unused credit of the
	// peer, or to one of the held messages. The other receives are for the replies to own calls.
	window, held int
	// received counts the credits that the peer has used. announced counts the credits that were granted
	// to it.
	received, announced uint32
	// owed counts the credits since the last announcement.
	owed int
	// grants counts the received frames of kind kindCredit, and confirmed counts the frames of this
	// kind that were confirmed to the peer.
	grants, confirmed uint32
}

// granted returns the number of credits that the peer may be granted in total.
func (r *receiver) granted() uint32 { return r.received + uint32(r.window-r.held) }

// due reports whether new credits need a frame of their own, because the peer has no others or many are
// new.
func (r *receiver) due() bool {
	return r.granted() != r.announced && (r.announced == r.received || r.owed >= max(1, r.window/2))
}

// Receive waits for a message or a request of the peer. Messages come in the order in which the peer
// sent them. The message is in the memory of its receive, and belongs to the caller until Message.Free.
//
// Receive returns io.EOF when the peer has disconnected and all earlier messages have been taken. If ctx
// ends first, it returns the error of ctx, and no message is lost. After Close the error wraps
// net.ErrClosed.
func (c *Conn) Receive(ctx context.Context) (*Message, error) {
	cdev.NeedContext(ctx)
	c.mu.Lock()
	defer c.unlock()
	r := &c.recv
	if r.messages.Len() > 0 {
		return r.messages.Pop(), nil
	}
	if c.err != nil {
		return nil, c.receiveError(c.err)
	}
	w := c.getWaiter()
	r.waiting.Push(w)
	err := c.wait(ctx, w)
	m := w.message
	if err != nil {
		r.waiting.Remove(slices.Index(r.waiting.All(), w))
	} else {
		err = w.err
	}
	c.putWaiter(w)
	if err != nil {
		return nil, c.receiveError(err)
	}
	return m, nil
}

func (c *Conn) receiveError(err error) error {
	if err == io.EOF {
		return err
	}
	return c.opError(opReceive, err)
}

// handle takes a message, or the error after the last one. A goroutine that polls calls it.
func (c *Conn) handle(in *inflight.Message, err error) {
	if err != nil {
		c.end(err)
		return
	}
	c.pollSends()
	c.mu.Lock()
	defer c.unlock()
	if c.err != nil {
		in.Free()
		return
	}
	f, err := parseFrame(in.Bytes())
	if err == nil {
		err = c.checkCredits(&f)
	}
	if n := c.queue.Pending() - c.loans.bound; err == nil && n > c.send.most {
		err = violation("it has not received %d frames, and sends others", n)
	}
	if err == nil {
		c.mute = false
		err = c.take(&f, in)
	}
	if err != nil {
		in.Free()
		c.fail(err)
		go c.disconnect()
		return
	}
	c.pump()
}

// checkCredits takes the counts of a frame. The caller holds the lock.
func (c *Conn) checkCredits(f *frame) error {
	r, s := &c.recv, &c.send
	used, left := f.sent-r.received, r.announced-r.received
	var want uint32
	if f.kind.takesCredit() {
		want = 1
	}
	switch {
	case used != want:
		return violation("a frame of kind %d counts %d credits, want %d", f.kind, int32(used), want)
	case used > left:
		return violation("a frame without a credit")
	case f.granted-s.granted > s.window || f.granted-s.sent > s.window:
		return violation("%d credits more, at most %d are possible", int32(f.granted-s.granted), s.window)
	case f.confirmed-s.confirmed > s.grants-s.confirmed:
		return violation("it confirms %d grants of credits, and %d were sent", f.confirmed, s.grants)
	case f.kind == kindCredit && r.grants != r.confirmed:
		return violation("it grants credits before the previous grant was confirmed")
	}
	r.received, s.granted, s.confirmed = f.sent, f.granted, f.confirmed
	if f.kind == kindCredit {
		r.grants++
	}
	return nil
}

// take takes a frame, and the message of its receive unless it returns an error. The caller holds the
// lock.
func (c *Conn) take(f *frame, in *inflight.Message) error {
	r := &c.recv
	switch f.kind {
	case kindMessage, kindRequest:
		if f.kind == kindRequest {
			if uint64(f.call) >= uint64(len(r.open)) || r.open[f.call] != nil {
				return violation("a request with the number %d, which is too large or in use", f.call)
			}
			if f.parts >= len(r.open) {
				return violation("a request for %d parts, it has receives for %d answers", f.parts, len(r.open))
			}
		}
		r.held++
		m := c.newMessage(f, in)
		if f.kind == kindRequest {
			r.open[f.call] = m
		}
		if r.waiting.Len() > 0 {
			w := r.waiting.Pop()
			w.message = m
			w.finish()
		} else {
			r.messages.Push(m)
		}
		return nil
	case kindReply, kindFailure:
		return c.answered(f, in)
	case kindPart:
		return c.takePart(f, in)
	case kindMore:
		if err := c.takeMore(f); err != nil {
			return err
		}
	case kindMoreTaken:
		if !c.send.granting {
			return violation("it answers a grant of parts that was not sent")
		}
		c.send.granting = false
	case kindCancel:
		if uint64(f.call) >= uint64(len(r.open)) {
			return violation("it cancels the call %d, and has %d", f.call, len(r.open))
		}
		if m := r.open[f.call]; m != nil { // otherwise the answer is on its way
			m.cancelContext()
		}
		c.post(&frame{kind: kindCancelled, call: f.call}, nil, nil)
	case kindCancelled:
		if !c.send.cancelling {
			return violation("it answers a cancellation that was not sent")
		}
		c.send.cancelling = false
	}
	in.Free()
	return nil
}
