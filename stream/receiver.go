// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"io"

	"purerdma/inflight"
	"purerdma/internal/fifo"
	"purerdma/internal/streamconn"
)

// receiver is the part of a link that receives. link.mu guards it.
type receiver struct {
	// messages has the messages whose data was not read, the oldest first.
	messages fifo.Queue[*inflight.Message]
	// offset is the index of the first byte of the first message that was not read.
	offset int
	// viewed is set if View has returned data of the first message.
	viewed bool
	// shut is set by CloseRead and Close.
	shut bool
	// fin is set if the peer's stream has ended.
	fin bool
	// ended is set after the last message. A send may fail before the messages that arrived earlier
	// have been taken, so link.err alone does not end the stream.
	ended bool

	// window is the number of receives for this connection. Each belongs to an unused credit of the
	// peer, or to a message in messages.
	window int
	// received counts the credits that the peer has used. announced counts the credits that were granted
	// to it.
	received, announced uint32
	// owed counts the credits since the last announcement that belong to data.
	owed int
}

// granted returns the number of credits that the peer may be granted in total.
func (r *receiver) granted() uint32 {
	return r.received + uint32(r.window-r.messages.Len())
}

// due reports whether new credits need a frame of their own. Credits of frames without data alone do
// not count, unless the peer cannot send data without them. A peer with one credit gets a frame that
// grants two or more. It may have to answer with a frame without data, and then still has two. If one
// were enough, two idle sides with unread data would answer each other forever.
func (r *receiver) due() bool {
	left, more := r.announced-r.received, r.granted()-r.announced
	return more > 0 && (left == 0 || left == 1 && more >= 2 || r.owed >= max(2, (r.window-1)/2))
}

// handle takes the next message of the peer. After the last message it is called once with an error.
func (l *link) handle(m *inflight.Message, err error) {
	if err != nil {
		err = streamconn.Cause(err)
	}
	l.mu.Lock()
	defer l.unlock()
	if err != nil {
		l.recv.ended = true
		if !l.explaining {
			l.fail(err)
		}
		return
	}
	if l.recv.ended {
		m.Free()
		return
	}
	f, err := parseFrame(m.Bytes())
	if err == nil {
		err = l.take(&f)
	}
	if err == nil {
		l.stats.received.Add(uint64(f.length))
	}
	if err != nil || f.length == 0 || l.recv.shut {
		m.Free()
	} else {
		l.recv.messages.Push(m)
		l.wakeRead = true
	}
	if err != nil {
		l.violated(err)
		return
	}
	if f.length > 0 {
		if l.recv.shut {
			l.recv.owed++
		}
		l.wantMore()
	}
	l.pump()
}

// take checks the header of a frame and applies its counts and flags. Its error wraps EPROTO. The
// caller holds the lock.
func (l *link) take(f *frame) error {
	r, s := &l.recv, &l.send
	used, left := f.sent-r.received, r.announced-r.received
	if used == 0 || used > left {
		return violation("a frame counts %d credits, and the peer has %d", int32(used), left)
	}
	if r.fin && (f.length > 0 || f.flags&flagFIN != 0) {
		return violation("data after the end of the stream")
	}
	if more := f.granted - s.granted; more > maxWindow || f.granted-s.sent > maxWindow {
		return violation("%d credits more, at most %d are possible", int32(more), maxWindow)
	}
	if f.flags&flagFINAck != 0 && s.fin < finSent {
		return violation("it confirms an end that was not sent")
	}
	if returned := int(used - 1); returned > 0 {
		if l.budget == nil || r.window-returned < baseWindow {
			return violation("it returns %d credits of %d", returned, r.window)
		}
		r.window -= returned
		l.budget.release(returned)
	}
	r.received = f.sent
	s.granted = f.granted
	l.mute = false
	l.watchIdle()
	if f.flags&flagFINAck != 0 {
		s.fin = finConfirmed
		l.wakeWrite = true
	}
	if f.flags&flagFIN != 0 {
		r.fin, l.wakeRead = true, true
		s.confirm = l.iwarp
	}
	return nil
}

// wantMore takes more credits for a connection whose peer sends data, up to Options.Window. The caller
// holds the lock.
func (l *link) wantMore() {
	r := &l.recv
	if l.budget == nil || r.window >= l.opts.Window || l.broken {
		return
	}
	n := l.budget.extra(l, min(r.window, l.opts.Window-r.window))
	r.window += n
	r.owed += n
	l.watchIdle()
}

// widen adds n credits that the budget has reserved for the waiting connection. If the connection has
// ended, or if its peer does not use the credits that it has, widen returns them to the budget.
func (l *link) widen(n int) {
	l.mu.Lock()
	unused := int(l.recv.announced-l.recv.received) >= l.recv.window-1
	if l.freed || l.broken || unused || l.recv.window+n > l.opts.Window {
		l.mu.Unlock()
		l.budget.release(n)
		return
	}
	l.recv.window += n
	l.recv.owed += n
	l.watchIdle()
	l.pump()
	l.unlock()
}

// View implements streamconn.Protocol.
func (l *link) View() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.recv
	switch {
	case r.shut:
		return nil, io.EOF
	case r.messages.Len() > 0:
		r.viewed = true
		return (*r.messages.Front()).Bytes()[frameLen+r.offset:], nil
	case r.fin:
		return nil, io.EOF
	case r.ended:
		return nil, l.err
	}
	return nil, nil
}

// Release implements streamconn.Protocol.
func (l *link) Release(n int) {
	if l.release(n) {
		l.poll()
	}
}

// release is Release without polling. It reports whether a message was freed and others remain. Then the
// reader may not wait for a long time.
func (l *link) release(n int) bool {
	l.mu.Lock()
	defer l.unlock()
	r := &l.recv
	r.viewed = false
	r.offset += n
	switch {
	case r.shut:
		l.shutRead()
	case n > 0 && frameLen+r.offset == (*r.messages.Front()).Len():
		l.consume()
	default:
		return false
	}
	l.pump()
	return r.messages.Len() > 0
}

// consume frees the first message. The caller holds the lock.
func (l *link) consume() {
	r := &l.recv
	r.messages.Pop().Free() // first, so that the receive is posted when the credit is granted
	r.offset = 0
	if l.budget != nil && r.window > baseWindow && l.budget.wanted.Load() {
		r.window-- // the credit is not granted again
		l.budget.release(1)
		return
	}
	r.owed++
}

// CloseRead implements streamconn.Protocol.
func (l *link) CloseRead() error {
	l.mu.Lock()
	defer l.unlock()
	l.shutRead()
	l.pump()
	return nil
}

// shutRead discards the received data. Data that a reader may be copying is discarded by Release. The
// caller holds the lock.
func (l *link) shutRead() {
	r := &l.recv
	r.shut, l.wakeRead = true, true
	if r.viewed {
		return // see Release
	}
	for r.messages.Len() > 0 {
		l.consume()
	}
}
