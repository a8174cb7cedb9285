// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
	"purerdma/pool"
	"purerdma/verbs"
)

// Message is a received message, request or reply. It belongs to its user until the last reference is
// freed. Its methods may be called concurrently, and not after the last Free.
type Message struct {
	conn *Conn
	in   *inflight.Message
	refs atomic.Int32
	kind kind
	tag  uint64

	number uint32 // of the call of a request
	call   *call  // of a reply or a part, otherwise nil
	// read and write are the memory that a request lends. skip is the length of their encoding.
	read, write Token
	skip        int
	// Conn.mu guards the following fields.
	answered bool
	// over is set when the context of the message has ended. ctx and cancel are nil before the first
	// use.
	over   bool
	ctx    context.Context
	cancel context.CancelFunc
	// transfers counts the transfers of lent memory in progress.
	transfers int
	// credits is the number of parts of the answer that can be sent, of maxCredits. waiting has the
	// goroutines that wait for a credit.
	credits, maxCredits int
	waiting             fifo.Queue[*waiter]
}

// newMessage returns a message with one reference, which has the message of a receive. The caller
// holds the lock.
func (c *Conn) newMessage(f *frame, in *inflight.Message) *Message {
	var m *Message
	if n := len(c.messages); n > 0 {
		m = c.messages[n-1]
		c.messages = c.messages[:n-1]
	} else {
		m = &Message{conn: c}
	}
	m.in, m.kind, m.tag, m.number, m.skip = in, f.kind, f.tag, f.call, f.lentLen()
	m.read, m.write = Token{}, Token{}
	if f.flags&lentRead != 0 {
		m.read = Token{f.read, verbs.RemoteRead}
	}
	if f.flags&lentWrite != 0 {
		m.write = Token{f.write, verbs.RemoteWrite}
	}
	m.credits, m.maxCredits = f.parts, f.parts
	m.refs.Store(1)
	return m
}

// Tag returns the tag that the peer has sent with the message.
func (m *Message) Tag() uint64 { return m.tag }

// Bytes returns the data of the message, in the memory of its receive. The program may change it. The
// slice must not be used after the last Free.
func (m *Message) Bytes() []byte {
	if m.refs.Load() <= 0 {
		panic("msg: Bytes of a Message after Free")
	}
	return m.in.Bytes()[headerLen+m.skip:]
}

// IsRequest reports whether the peer waits for Reply or Fail.
func (m *Message) IsRequest() bool { return m.kind == kindRequest }

// Ref adds a reference and returns m. Each reference needs a Free of its own.
func (m *Message) Ref() *Message {
	if m.refs.Add(1) <= 1 {
		panic("msg: Ref of a Message after Free")
	}
	return m
}

// Free releases a reference. With the last one, the receive takes another message, and a request that
// was not answered fails. Free does not wait. Free of a freed Message panics if the Message is not in
// use again.
func (m *Message) Free() {
	switch n := m.refs.Add(-1); {
	case n < 0:
		panic("msg: Free of a Message after Free")
	case n == 0:
		m.conn.release(m)
	}
}

// release takes back a message without references.
func (c *Conn) release(m *Message) {
	c.mu.Lock()
	defer c.unlock()
	if m.kind == kindRequest && !m.answered {
		c.answer(m, &frame{kind: kindFailure}, nil, nil)
	}
	m.cancelContext()
	m.in.Free() // first, so that the receive is posted when the credit is granted
	if m.call != nil {
		c.freed(m)
	} else {
		c.recv.held--
		c.recv.owed++
	}
	m.in, m.call, m.answered, m.over, m.ctx, m.cancel = nil, nil, false, false, nil, nil
	c.messages = append(c.messages, m)
	c.pump()
}

// Context returns a context that ends when the caller no longer waits for the reply. It also ends when
// the request is answered, with the last Free, and with the connection. Like other frames, a
// cancellation is seen while a goroutine waits in Receive, Call or Send of the connection.
func (m *Message) Context() context.Context {
	c := m.conn
	c.mu.Lock()
	defer c.unlock()
	if m.ctx == nil {
		m.ctx, m.cancel = context.WithCancel(c.over)
		if m.over {
			m.cancel()
		}
	}
	return m.ctx
}

// cancelContext ends the context. The caller holds the lock of the connection.
func (m *Message) cancelContext() {
	m.over = true
	if m.cancel != nil {
		m.cancel()
	}
	m.wakeParts()
}

var (
	errNotRequest = fmt.Errorf("the message is not a request: %w", syscall.EINVAL)
	errAnswered   = fmt.Errorf("the request was answered before: %w", syscall.EINVAL)
	errInTransfer = fmt.Errorf("a transfer of the memory that the request lends is in progress: %w", syscall.EBUSY)
)

// Reply answers a request. It copies data, of at most Conn.MaxLen bytes. It waits only for memory, until
// ctx ends, and not until the device has sent the reply. A request is answered once. The message
// stays valid until Free. The errors are as in Conn.Send. It fails
// with syscall.EBUSY during a transfer of memory that the request lends. After an error for which the connection goes
// on, the request can be answered again.
func (m *Message) Reply(ctx context.Context, tag uint64, data []byte) error {
	return m.answer(ctx, &frame{kind: kindReply, tag: tag}, data)
}

// Fail answers a request with an error. The caller gets a *RemoteError with the reason, of which at most
// Conn.MaxLen bytes are sent. It is otherwise like Reply.
func (m *Message) Fail(ctx context.Context, reason string) error {
	return m.answer(ctx, &frame{kind: kindFailure}, []byte(reason[:min(len(reason), m.conn.MaxLen())]))
}

func (m *Message) answer(ctx context.Context, f *frame, data []byte) error {
	cdev.NeedContext(ctx)
	c := m.conn
	buf, err := c.buffer(ctx, data)
	if err == nil {
		c.mu.Lock()
		defer c.unlock()
		switch {
		case m.kind != kindRequest:
			err = errNotRequest
		case m.answered:
			err = errAnswered
		case c.err != nil:
			err = c.err
		case m.transfers > 0:
			err = errInTransfer
		}
		if err != nil {
			freeBuf(buf)
		}
	}
	if err != nil {
		return c.opError(opReply, err)
	}
	c.answer(m, f, data, buf)
	return nil
}

// answer sends the answer to a request. It takes over buf. The caller holds the lock.
func (c *Conn) answer(m *Message, f *frame, data []byte, buf *pool.Buf) {
	m.answered = true
	c.recv.open[m.number] = nil
	m.cancelContext()
	if c.err != nil {
		freeBuf(buf)
		return
	}
	f.call = m.number
	c.post(f, data, buf)
}
