// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
	"purerdma/pool"
)

// States of a call.
const (
	callUnused    = iota
	callWaiting   // for the answer
	callAbandoned // the caller no longer waits, and the answer has not arrived
	// callCancelled is callAbandoned with a caller that waits for the end of the use of lent memory.
	callCancelled
	callAnswered // the caller has the answer
)

// call is a call in progress. Its number is used again when the answer has arrived, and the answer and the
// parts before it were freed. So there is a receive for each answer and part, and the peer can always send
// it. Conn.mu guards it.
type call struct {
	waiter
	number uint32
	state  int
	// units is the number of receives for the answer and the parts. held counts the messages in them that
	// the program has not freed. over is set when no further message can arrive, and the caller has taken
	// all of them.
	units, held int
	over        bool
	stream      stream
	// cancelling is set while the call is in sender.cancels.
	cancelling bool
}

// calls are the calls of a Conn. Conn.mu guards them.
type calls struct {
	all     []*call // by number
	unused  []*call
	units   int                 // of the calls in progress
	waiting fifo.Queue[*waiter] // for units
}

// RemoteError is the failure of a call, which the peer has sent instead of a reply.
type RemoteError struct {
	// Reason is the text of Message.Fail, as the peer has sent it. It is empty if the peer has freed the
	// request without an answer.
	Reason string
}

// maxReasonText bounds the part of a reason that an error prints, in bytes.
const maxReasonText = 256

// Error returns at most 256 bytes of the reason. It quotes a reason that is not printable, because
// control characters could change a log or a terminal.
func (e *RemoteError) Error() string {
	if e.Reason == "" {
		return "the peer has not answered the request"
	}
	text, more := e.Reason, ""
	if len(text) > maxReasonText {
		end := maxReasonText
		for end > maxReasonText-utf8.UTFMax && !utf8.RuneStart(text[end]) { // do not cut a character
			end--
		}
		text, more = text[:end], "..."
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable) {
		text = strconv.Quote(text)
	}
	return "the peer reports: " + text + more
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
	m, err := c.call(ctx, &frame{kind: kindRequest, tag: tag}, data, false)
	if err != nil {
		return nil, c.opError(opCall, err)
	}
	return m, nil
}

// call sends a request and waits for the answer. lends is set if the peer can reach memory until it has
// answered.
func (c *Conn) call(ctx context.Context, f *frame, data []byte, lends bool) (*Message, error) {
	buf, err := c.buffer(ctx, data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.unlock()
	cl, err := c.begin(ctx, f, data, buf)
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx, &cl.waiter); err != nil { // which posts the request
		c.abandon(cl, lends)
		return nil, err
	}
	m, err := cl.message, cl.err
	c.finishCall(cl)
	return m, err
}

// begin sends a request. It takes over buf, which has the data unless it is nil. The caller holds the lock, which begin
// releases while it waits for a call and a credit.
func (c *Conn) begin(ctx context.Context, f *frame, data []byte, buf *pool.Buf) (*call, error) {
	cl, err := c.takeCall(ctx, f.parts+1)
	if err != nil {
		freeBuf(buf)
		return nil, err
	}
	if err := c.takeCredit(ctx); err != nil {
		freeBuf(buf)
		c.finishCall(cl)
		return nil, err
	}
	cl.state, cl.stream.left = callWaiting, f.parts
	f.call = cl.number
	c.post(f, data, buf)
	return cl, nil
}

// abandon cancels a call. If the call lends memory, it waits for the answer of the peer, but at most a second. The
// caller holds the lock, which abandon releases while it waits.
func (c *Conn) abandon(cl *call, lends bool) {
	if cl.state != callWaiting { // the answer has just arrived, or the connection has failed
		c.dropAnswer(cl)
		return
	}
	cl.state = callAbandoned
	if lends {
		cl.state = callCancelled
	}
	if !cl.cancelling {
		cl.cancelling = true
		c.send.cancels.Push(cl)
	}
	cl.waiter.again() // pump may finish it
	c.pump()
	if c.send.cancels.Len() > 0 && c.send.canceller == nil && c.err == nil {
		c.send.canceller = c.getWaiter()
		go c.awaitCancels()
	}
	if !lends {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.grace)
	defer cancel()
	if c.wait(ctx, &cl.waiter) != nil {
		cl.state = callAbandoned
		return
	}
	c.dropAnswer(cl)
}

// dropAnswer ends a call, and frees its answer. The caller holds the lock.
func (c *Conn) dropAnswer(cl *call) {
	m := cl.message
	c.finishCall(cl)
	if m != nil {
		c.unlock()
		m.Free()
		c.mu.Lock()
	}
}

// takeCall returns an unused call, with a number of receives. It waits while there are not enough. The
// caller holds the lock, which takeCall releases while it waits.
func (c *Conn) takeCall(ctx context.Context, units int) (*call, error) {
	s := &c.calls
	if c.err != nil {
		return nil, c.err
	}
	if s.waiting.Len() > 0 || s.units+units > c.opts.Calls {
		w := c.getWaiter()
		w.units = units
		s.waiting.Push(w)
		err := c.wait(ctx, w)
		if err != nil {
			s.waiting.Remove(slices.Index(s.waiting.All(), w))
			s.grant(c.opts.Calls) // to those behind it
		} else {
			err = w.err
		}
		c.putWaiter(w)
		if err != nil {
			return nil, err
		}
	} else {
		s.units += units
	}
	var cl *call
	if n := len(s.unused); n > 0 {
		cl = s.unused[n-1]
		s.unused = s.unused[:n-1]
	} else {
		cl = &call{waiter: waiter{signal: c.newSignal()}, number: uint32(len(s.all))}
		s.all = append(s.all, cl)
	}
	cl.units = units
	return cl, nil
}

// grant lets calls that wait begin, in their order. The caller holds the lock of the Conn.
func (s *calls) grant(most int) {
	for s.waiting.Len() > 0 {
		w := *s.waiting.Front()
		if s.units+w.units > most {
			return
		}
		s.units += w.units
		s.waiting.Pop()
		w.finish()
	}
}

// finishCall ends a call for which no further message arrives, and whose caller has got all. The caller holds
// the lock.
func (c *Conn) finishCall(cl *call) {
	cl.over = true
	c.putCall(cl)
}

// putCall takes back a call if it is over and its messages were freed. The caller holds the lock.
func (c *Conn) putCall(cl *call) {
	if !cl.over || cl.held > 0 {
		return
	}
	s := &c.calls
	cl.state, cl.over = callUnused, false
	cl.stream.reset()
	cl.reset()
	s.units -= cl.units
	s.unused = append(s.unused, cl)
	s.grant(c.opts.Calls)
}

// awaitCancels polls until all cancellations have been sent. Otherwise the last ones could wait for a frame
// that no goroutine takes.
func (c *Conn) awaitCancels() {
	c.mu.Lock()
	defer c.unlock()
	w := c.send.canceller
	for c.err == nil && c.send.cancels.Len() > 0 {
		_ = c.wait(context.Background(), w) // an error has ended the connection
		w.reset()
	}
	c.send.canceller = nil
	c.putWaiter(w)
}

// cancel sends the cancellation of a call, unless its answer has arrived. The caller holds the lock.
func (c *Conn) cancel(cl *call) {
	cl.cancelling = false
	if cl.state == callAbandoned || cl.state == callCancelled {
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
		c.finishCall(cl)
	case callCancelled:
		in.Free()
		cl.state = callAnswered
		cl.finish()
	case callWaiting:
		cl.state = callAnswered
		if f.kind == kindFailure {
			cl.err = &RemoteError{Reason: string(in.Bytes()[headerLen:])}
			in.Free()
		} else {
			cl.message = c.newMessage(f, in)
			cl.message.call = cl
			cl.held++
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
		if cl.state == callWaiting || cl.state == callCancelled {
			cl.state = callAnswered
			cl.failed(err)
		}
	}
	for s.waiting.Len() > 0 {
		s.waiting.Pop().failed(err)
	}
}
