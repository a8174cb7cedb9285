// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"purerdma/cm"
	"purerdma/verbs"
)

// A work request's ID is the number of its QP and how many have been posted to
// that, or the mark of a receive instead.
const (
	laneShift = 48
	countMask = 1<<laneShift - 1
	recvMark  = 1 << 63
)

// end is one side's half of a test: its memory, its CQ and its QPs. One
// goroutine uses it.
type end struct {
	plan
	pd     *verbs.PD
	cq     *verbs.CQ
	mr     *verbs.MR
	lanes  []*lane
	wcs    []verbs.WC
	client bool
	// received handles the completion of a receive.
	received func(*lane, *verbs.WC) error
	// booked is how many completions there were, of anything.
	booked atomic.Uint64
	// done is how many requests have completed, for whoever shows progress.
	done atomic.Uint64
	// target is how many messages of a size the client says that it has sent, or is
	// about to; 0 while it has not said.
	target atomic.Uint64
}

// lane is one QP, and where its peer's memory is.
type lane struct {
	index     int
	qp        *verbs.QP
	conn      *cm.Conn  // nil without the connection manager
	ah        *verbs.AH // whom datagrams go to, with the next two
	qpn, qkey uint32
	credits   [1]verbs.SendWR    // the message that makes receives known
	list      []verbs.SendWR     // for messages
	size      int                // of those in list
	out       []byte             // the data to send
	remote    verbs.RemoteMemory // what requests read, write or add to
	posted    uint64
	signalled uint64 // the last that completes
	completed uint64
	limit     uint64 // posted must not pass it
	credit    uint64 // receives that the peer has for us
	reposts   int    // receives that have been used up
	recvs     []verbs.RecvWR
	received  uint64 // messages
	bytes     uint64
}

// receives is how many a QP has posted: messages where there are any, and on the
// other side of a stream what says that there are more. A sender never has more
// messages out than there are receives: on iWARP one too many ends the
// connection, and elsewhere it is repeated after a while.
func (e *end) receives() int {
	switch {
	case e.kind.Op != "send":
		return 1
	case e.kind.Latency:
		return latencyReceives
	case e.client:
		return 2 * streamReceives / creditBatch
	}
	return streamReceives
}

const (
	latencyReceives = 4
	streamReceives  = 256
	creditBatch     = 64 // receives that one message makes known
)

func newEnd(p plan, dev *verbs.Device, pd *verbs.PD, client bool) (*end, error) {
	e := &end{plan: p, pd: pd, client: client}
	var err error
	if e.mr, err = pd.Alloc(int(p.memory()), p.access()); err != nil {
		return nil, err
	}
	entries := p.QPs * (e.sends() + e.receives())
	if e.cq, err = dev.CreateCQ(verbs.CQConfig{Entries: entries, NoEvents: !p.Events}); err != nil {
		e.mr.Close()
		return nil, err
	}
	if p.Events {
		e.cq.SetSpin(0)
	}
	e.wcs = make([]verbs.WC, 64)
	return e, nil
}

// sends is the size of a send queue: the sink of a stream sends credit only.
func (e *end) sends() int {
	if e.client || e.kind.echo {
		return e.Depth
	}
	return 2 * streamReceives / creditBatch
}

// stage is a connection before it is one: *cm.Resolved or *cm.Request.
type stage interface {
	Device() *verbs.Device
	Init(*verbs.QP) error
}

// newLane makes a QP and posts its receives.
func (e *end) newLane(s stage) (*lane, error) {
	if !s.Device().Same(e.pd.Device()) {
		return nil, fmt.Errorf("a QP would be on %s, and the memory is on %s", s.Device().Name(), e.pd.Device().Name())
	}
	l := &lane{index: len(e.lanes)}
	n := e.receives()
	qp, err := e.pd.CreateQP(verbs.QPConfig{Type: e.connection, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{SendWR: e.sends(), RecvWR: n, SendSGE: 1, RecvSGE: 1, Inline: e.Inline}})
	if err != nil {
		return nil, err
	}
	l.qp = qp
	l.out = e.mr.Bytes()[e.outgoing(l.index):][:e.stride()]
	sg := []verbs.SGE{e.mr.Slice(e.incoming(l.index), e.stride())}
	for range n {
		l.recvs = append(l.recvs, verbs.RecvWR{ID: recvMark | uint64(l.index)<<laneShift, SGList: sg})
	}
	if e.client && !e.kind.Latency {
		l.credit = streamReceives
	}
	if err := s.Init(qp); err != nil {
		qp.Close()
		return nil, err
	}
	if _, err := qp.PostRecv(l.recvs); err != nil {
		qp.Close()
		return nil, err
	}
	e.lanes = append(e.lanes, l)
	return l, nil
}

// use has the requests of each QP work in its part of the other side's memory.
func (e *end) use(memory verbs.RemoteMemory) error {
	if memory.Length < uint64(e.memory()) {
		return fmt.Errorf("the other side's memory has %d bytes, want %d", memory.Length, e.memory())
	}
	for _, l := range e.lanes {
		at := e.incoming(l.index)
		if e.client && e.kind.opcode == verbs.OpRead {
			at = e.outgoing(l.index)
		}
		l.remote = memory.Slice(at, e.stride())
	}
	return nil
}

// close ends the connections before it takes the memory away.
func (e *end) close() {
	for _, l := range e.lanes {
		if l.conn != nil {
			l.conn.Close()
		}
		l.qp.Close()
		if l.ah != nil {
			l.ah.Close()
		}
	}
	e.cq.Close()
	e.mr.Close()
}

// prepare makes the requests of a list, but for what is new in each.
func (e *end) prepare(l *lane, size int) {
	wr := verbs.SendWR{Opcode: e.kind.opcode, RemoteAddr: l.remote.Addr, RKey: l.remote.RKey, CompareAdd: 1}
	switch local := e.outgoing(l.index); {
	case wr.Opcode != verbs.OpSend && wr.Opcode != verbs.OpWrite:
		wr.SGList = []verbs.SGE{e.mr.Slice(e.incoming(l.index), size)}
	case size <= e.Inline:
		wr.InlineData = l.out[:size]
	default:
		wr.SGList = []verbs.SGE{e.mr.Slice(local, size)}
	}
	if l.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = l.ah, l.qpn, l.qkey
	}
	l.size, l.list = size, l.list[:0]
	for range e.List {
		l.list = append(l.list, wr)
	}
}

// post posts n requests of size bytes with one doorbell.
func (e *end) post(l *lane, n, size int) error {
	if l.size != size {
		e.prepare(l, size)
	}
	list := l.list[:n]
	for i := range list {
		l.posted++
		wr := &list[i]
		wr.ID, wr.Flags = uint64(l.index)<<laneShift|l.posted&countMask, 0
		// The end of a list completes, because the next one waits for room for all
		// of it.
		if l.posted-l.signalled >= uint64(e.moderation()) || l.posted == l.limit || n > 1 && i == n-1 {
			wr.Flags = verbs.SendSignaled
			l.signalled = l.posted
		}
	}
	_, err := l.qp.PostSend(list)
	return err
}

// emptyPolls is how often a CQ is polled between looks at the context.
const emptyPolls = 1 << 12

// next waits for completions, and books them.
func (e *end) next(ctx context.Context) error {
	n, err := e.wait(ctx)
	if err == nil {
		err = e.book(n)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // which has broken the QPs
	}
	return err
}

// breakAtEnd has ctx break the QPs when it ends, so that the receives complete:
// whoever waits for events wakes, though his wait has no context. One of those
// costs allocations in each wait.
func (e *end) breakAtEnd(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		for _, l := range e.lanes {
			l.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		}
	})
}

func (e *end) wait(ctx context.Context) (int, error) {
	if e.Events {
		return e.cq.Wait(context.Background(), e.wcs)
	}
	for i := 1; ; i++ {
		if n, err := e.cq.Poll(e.wcs); n > 0 || err != nil {
			return n, err
		}
		if i%emptyPolls == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

func (e *end) book(n int) error {
	e.booked.Add(uint64(n))
	for i := range e.wcs[:n] {
		wc := &e.wcs[i]
		index := int(wc.ID &^ recvMark >> laneShift)
		if index >= len(e.lanes) {
			return fmt.Errorf("completion of no request: %+v", *wc)
		}
		l := e.lanes[index]
		if err := wc.Err(); err != nil {
			if l.conn != nil {
				err = l.conn.Explain(err)
			}
			return err
		}
		if wc.ID&recvMark != 0 {
			if err := e.received(l, wc); err != nil {
				return err
			}
			continue
		}
		if count := wc.ID & countMask; count != 0 { // else it is a credit message
			e.done.Add(count - l.completed)
			l.completed = count
		}
	}
	return nil
}

// repost posts the n receives that were used up last.
func (e *end) repost(l *lane, n int) error {
	_, err := l.qp.PostRecv(l.recvs[:n])
	return err
}
