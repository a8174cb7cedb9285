// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"sync/atomic"

	"purerdma/pool"
	"purerdma/verbs"
)

// Message is a received message in the buffer of its receive. It belongs to its user until the last
// reference is freed. Receiver.Receive returns it with one reference. Its methods may be called
// concurrently.
//
// A Message is also a Holder, so a message can be sent on without a copy:
//
//	op, err := conn.StartSend(ctx, m.SGE(), m.Ref())
type Message struct {
	rq   *receives
	buf  *pool.Buf // nil if the Message is unused
	wc   verbs.WC
	refs atomic.Int32
	// to is the receiver whose message it is, nil if it was not delivered.
	to *Receiver
	// place is in receives.spare, receives.unused or Receiver.queue.
	place link[Message]
}

// Len returns the number of bytes of the message.
func (m *Message) Len() int {
	if m.wc.Opcode != verbs.WCRecv {
		return 0 // a WRITE with immediate data has its bytes elsewhere
	}
	return min(int(m.wc.ByteLen), m.rq.size) // a device wrote ByteLen
}

// Bytes returns the message, nil if the pool's memory is another device's. The program may change
// it. The slice must not be used after the last Free. A WRITE with immediate data has no bytes here,
// because they went to the address that the peer named.
func (m *Message) Bytes() []byte {
	b := m.buf.Bytes()
	if b == nil {
		return nil
	}
	n := m.Len()
	return b[:n:n]
}

// SGE returns the message as an element of a work request, for example to send it on.
func (m *Message) SGE() verbs.SGE { return m.buf.Slice(0, m.Len()) }

// WC returns the completion of the receive, with the immediate data and the flags. Its ID has no
// meaning for the program.
func (m *Message) WC() verbs.WC { return m.wc }

// Ref adds a reference and returns m. Each reference needs a Free of its own.
func (m *Message) Ref() *Message {
	if m.refs.Add(1) <= 1 {
		panic("inflight: Ref of a Message after Free")
	}
	return m
}

// Free releases a reference. With the last one, the buffer is posted again for another message. Free of a
// freed Message panics, unless the Message is already in use for another message.
func (m *Message) Free() {
	switch n := m.refs.Add(-1); {
	case n < 0:
		panic("inflight: Free of a Message after Free")
	case n == 0:
		m.to.held.Add(-1)
		m.rq.giveBack(m)
	}
}
