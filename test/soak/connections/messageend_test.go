// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/msg"
	"purerdma/verbs"
)

// callers is the number of goroutines of each side that make calls.
const callers = 3

// messageEnd is one side of a connection of package msg.
type messageEnd struct {
	*end
	conn *messageConn
	// most is the length of the longest data of a call.
	most int
	// sent counts the one-way messages of each caller.
	sent     [callers]atomic.Uint64
	handlers sync.WaitGroup // of requests
	// finished gets a value when all calls of the peer have been answered, and bye one when the peer has got
	// all answers.
	finished, bye chan struct{}
	// ended is closed at the end of the messages. Then reason has the error of Receive.
	ended  chan struct{}
	reason error
}

// transfer implements connection.
func (c *messageConn) transfer(e *end) {
	me := &messageEnd{
		end: e, conn: c, most: c.MaxLen() - 2*verbs.RemoteMemoryLen,
		finished: make(chan struct{}, 1), bye: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	var err error
	if c.mr, err = c.PD().Alloc(callers*maxLent, verbs.LocalWrite|verbs.MWBind); err != nil {
		if !me.mayFail() {
			me.fault("PD.Alloc: %w", err)
		}
		return
	}
	go me.receive()
	var all sync.WaitGroup
	var failed atomic.Bool
	for g := range uint64(callers) {
		all.Go(func() {
			if !me.caller(g, c.mr.Bytes()[g*maxLent:][:maxLent]) {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	if failed.Load() || !me.finish() {
		c.Conn.Close()
	}
	<-me.ended
	me.handlers.Wait()
}

// finish waits until the calls of both sides have been answered, and one side has closed the connection. It
// returns false if this side must close the connection.
func (e *messageEnd) finish() bool {
	var sent []byte
	for i := range e.sent {
		sent = binary.BigEndian.AppendUint64(sent, e.sent[i].Load())
	}
	m, err := e.conn.Call(context.Background(), tagFinish, sent)
	if err != nil {
		e.failed("Call", err)
		return false
	}
	m.Free()
	if !e.await(e.finished) {
		return false
	}
	if e.plan.by == e.side {
		e.await(e.bye)
		return false
	}
	if err := e.conn.Send(context.Background(), tagBye, nil); err != nil {
		e.failed("Send", err)
		return false
	}
	if <-e.ended; !e.closedByPeer() {
		e.failed("Receive", e.reason)
	}
	return true
}

// closedByPeer reports whether the messages have ended because the peer has closed the connection. siw may lose the
// end. Fake devices fail a frame with credits at once if the peer's QP is closed, even before the event of the
// disconnect was taken.
func (e *messageEnd) closedByPeer() bool {
	wc, ok := errors.AsType[*verbs.WCError](e.reason)
	switch {
	case e.reason == io.EOF:
		return true
	case vmtest.Driver() == "siw" && errors.Is(e.reason, syscall.ECONNRESET):
		e.s.stats.lost.Add(1)
		return true
	}
	return e.s.fake && ok && wc.Status == verbs.WCRetryExcErr
}

// await waits for a message. It returns false if the connection ends first.
func (e *messageEnd) await(arrived <-chan struct{}) bool {
	select {
	case <-arrived:
		return true
	case <-e.ended:
	}
	select {
	case <-arrived: // before the end
		return true
	default:
		e.failed("Receive", e.reason)
		return false
	}
}

// receive takes the messages of the peer until the end of the connection. The messages of a caller must arrive
// in their order.
func (e *messageEnd) receive() {
	defer close(e.ended)
	var last, messages [callers]uint64
	for {
		m, err := e.conn.Receive(context.Background())
		if err != nil {
			e.reason = err
			return
		}
		g, index := m.Tag()>>32, m.Tag()&0xffffffff
		switch {
		case m.Tag() == tagFinish:
			for i, n := range messages {
				if want := binary.BigEndian.Uint64(m.Bytes()[8*i:]); n != want {
					e.fault("%d messages of caller %d have arrived, want %d: messages missing", n, i, want)
				}
			}
			if err := m.Reply(context.Background(), 0, nil); err != nil {
				e.failed("Reply", err)
			}
			m.Free()
			e.finished <- struct{}{}
		case m.Tag() == tagBye:
			m.Free()
			e.bye <- struct{}{}
		case g >= callers || index <= last[g]:
			e.fault("Receive() = tag %#x, want a later one of a caller", m.Tag())
			m.Free()
		default:
			last[g] = index
			if !m.IsRequest() {
				messages[g]++
			}
			e.handlers.Go(func() { e.serve(m) })
		}
	}
}

// failed processes an error. It is a fault unless the connection may fail.
func (e *messageEnd) failed(call string, err error) {
	if _, ok := errors.AsType[*cm.OpError](err); !ok && err != io.EOF {
		e.fault("%s: %w, which is no *cm.OpError", call, err)
	} else if !e.mayFail() {
		e.fault("%s: %w", call, err)
	}
}

// out returns bytes to send.
func (e *messageEnd) out(p callPlan, part uint64, n int) []byte {
	b := p.content(part, n)
	if n > 0 && e.plan.ending != aborts { // otherwise the peer may not receive them
		e.s.spoil.bytes(b)
	}
	return b
}

// check compares received bytes.
func (e *messageEnd) check(got []byte, p callPlan, part uint64, n int) {
	e.count(len(got) + msgHeader)
	switch want := p.content(part, n); {
	case len(got) != n:
		e.fault("%v: part %d has %d bytes, want %d", p, part, len(got), n)
	case !bytes.Equal(got, want):
		e.fault("%v: of %d bytes of part %d some differ from those that were sent", p, n, part)
	}
}

// msgHeader is counted for each message, because its data may have no bytes.
const msgHeader = 32

// serve takes a message, and answers a request.
func (e *messageEnd) serve(m *msg.Message) {
	defer m.Free()
	p := e.plan.call(1-e.side, m.Tag(), e.most)
	if m.IsRequest() != (p.kind != oneWay) {
		e.fault("%v: IsRequest() = %v", p, m.IsRequest())
		return
	}
	ctx := m.Context()
	time.Sleep(p.pause)
	data := m.Bytes()
	var loan msg.Token
	if p.kind == loanCall {
		if err := loan.UnmarshalBinary(data[:min(len(data), msg.TokenLen)]); err != nil {
			e.fault("%v: %w", p, err)
			return
		}
		data = data[msg.TokenLen:]
	}
	e.check(data, p, partRequest, p.data)
	var err error
	switch p.kind {
	case oneWay, ignoredCall:
		return
	case failedCall:
		err = m.Fail(ctx, p.reason())
	case lentCall:
		err = e.useLent(ctx, p, func(b verbs.SGE) error { return m.ReadLent(ctx, b, 0) }, func(b verbs.SGE) error { return m.WriteLent(ctx, b, 0) })
	case loanCall:
		err = e.useLent(ctx, p,
			func(b verbs.SGE) error { return e.conn.Read(ctx, b, loan.Slice(0, p.lent)) },
			func(b verbs.SGE) error { return e.conn.Write(ctx, b, loan.Slice(p.lent, p.lent)) })
	case streamCall:
		for i := range p.parts {
			if err = m.ReplyPart(ctx, uint64(i), e.out(p, partOfStream+uint64(i), p.reply)); err != nil {
				break
			}
		}
	}
	if err == nil && p.kind != failedCall {
		err = m.Reply(ctx, m.Tag(), e.out(p, partReply, p.reply))
	}
	if err != nil && ctx.Err() == nil { // otherwise the caller has cancelled, or reports the end
		e.failed("serving "+p.String(), err)
	}
}

// useLent reads lent memory, and writes to it. It does not read where packets are lost on rxe, because a READ may then
// complete without all of its data. With siw the data may change when the other side aborts
// (docs/reference/driver-faults.md).
func (e *messageEnd) useLent(ctx context.Context, p callPlan, read, write func(verbs.SGE) error) error {
	b, err := e.conn.Pool().Get(ctx, p.lent)
	if err != nil {
		return err
	}
	defer b.Free()
	if *netem == "" || vmtest.Driver() != "rxe" {
		if err := read(b.SGE()); err != nil {
			return err
		}
		if e.plan.ending != aborts || vmtest.Driver() != "siw" {
			e.check(b.Bytes(), p, partRead, p.lent)
		}
	}
	copy(b.Bytes(), e.out(p, partWrite, p.lent))
	return write(b.SGE())
}
