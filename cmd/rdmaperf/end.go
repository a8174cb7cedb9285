// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"purerdma/cm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// A work request's ID holds the number of its QP and the count of requests posted to that QP. A
// receive has a mark in place of the count.
const (
	laneShift = 48
	countMask = 1<<laneShift - 1
	recvMark  = 1 << 63
)

// end is one side's half of a test, with its memory, CQ and QPs. One goroutine uses it.
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
	// booked counts the completions of any kind.
	booked atomic.Uint64
	// done counts the completed requests, for the progress line.
	done atomic.Uint64
	// target is the number of messages of a size that the client has sent or is about to send.
	// It is 0 until the client has sent that number.
	target atomic.Uint64
}

// lane is one QP with its peer's memory.
type lane struct {
	index     int
	qp        *verbs.QP
	conn      *cm.Conn  // nil without the connection manager
	ah        *verbs.AH // destination of datagrams, with the next two
	qpn, qkey uint32
	credits   [1]verbs.SendWR    // the message that announces receives
	list      []verbs.SendWR     // for messages
	size      int                // of those in list
	out       []byte             // the data to send
	remote    verbs.RemoteMemory // memory that requests read, write or add to
	posted    uint64
	signalled uint64 // number of the last signaled request
	completed uint64
	limit     uint64 // upper bound of posted
	credit    uint64 // receives that the peer has posted for this side
	reposts   int    // consumed receives to post again
	recvs     []verbs.RecvWR
	received  uint64 // messages
	bytes     uint64
}

// receives returns the number of receives that a QP has posted. They take messages, or on the
// other side of a stream the announcements of new receives. A sender never has more messages in
// flight than there are receives. One message too many ends the connection on iWARP, and is
// repeated after a delay elsewhere.
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
	creditBatch     = 64 // receives that one message announces
)

func newEnd(p plan, dev *verbs.Device, pd *verbs.PD, client bool) (*end, error) {
	e := &end{plan: p, pd: pd, client: client}
	access := p.access()
	if p.kind.Op == "read" && dev.Features().ReadNeedsRemoteWrite {
		access |= verbs.RemoteWrite
	}
	var err error
	if e.mr, err = pd.Alloc(int(p.memory()), access); err != nil {
		return nil, err
	}
	entries := p.QPs * (e.sends() + e.receives())
	if e.cq, err = p.createCQ(dev, verbs.CQConfig{Entries: entries, NoEvents: !p.Events}); err != nil {
		e.mr.Close()
		return nil, err
	}
	if p.Events {
		e.cq.SetSpin(0)
	}
	e.wcs = make([]verbs.WC, 64)
	return e, nil
}

// createCQ creates a CQ. Completions of a given size need a ConnectX.
func (p *plan) createCQ(dev *verbs.Device, cfg verbs.CQConfig) (*verbs.CQ, error) {
	if p.CQESize == 0 {
		return dev.CreateCQ(cfg)
	}
	d, err := mlx5dv.From(dev)
	if err != nil {
		return nil, err
	}
	cq, err := d.CreateCQ(cfg, &mlx5dv.CQOptions{EntrySize: p.CQESize})
	if err != nil {
		return nil, err
	}
	return cq.CQ, nil
}

// sends returns the size of a send queue. The sink of a stream sends only credit.
func (e *end) sends() int {
	if e.client || e.kind.echo {
		return e.Depth
	}
	return 2 * streamReceives / creditBatch
}

// pendingConn is a connection that is not yet established: *cm.Resolved or *cm.Request.
type pendingConn interface {
	Device() *verbs.Device
	Init(*verbs.QP) error
}

// newLane creates a QP and posts its receives.
func (e *end) newLane(s pendingConn) (*lane, error) {
	if !s.Device().Same(e.pd.Device()) {
		return nil, fmt.Errorf("the connection is on device %s, but the memory is on %s", s.Device().Name(), e.pd.Device().Name())
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

// use directs each QP's requests to its part of the other side's memory.
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

// close ends the connections before it frees the memory.
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

// prepare fills in the constant fields of a list of requests.
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
		// The last request of a list is signaled, because the next list waits for room for all
		// of its requests.
		if l.posted-l.signalled >= uint64(e.moderation()) || l.posted == l.limit || n > 1 && i == n-1 {
			wr.Flags = verbs.SendSignaled
			l.signalled = l.posted
		}
	}
	_, err := l.qp.PostSend(list)
	return err
}

// emptyPolls is the number of empty polls of a CQ between checks of the context.
const emptyPolls = 1 << 12

// next waits for completions and counts them.
func (e *end) next(ctx context.Context) error {
	n, err := e.wait(ctx)
	if err == nil {
		err = e.book(n)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the end of ctx has broken the QPs
	}
	return err
}

// breakAtEnd moves the QPs to the error state when ctx ends. Their receives then complete,
// which wakes a wait for events that has no context. A context in each wait would cost
// allocations.
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
		if count := wc.ID & countMask; count != 0 { // 0 is a credit message
			e.done.Add(count - l.completed)
			l.completed = count
		}
	}
	return nil
}

// repost posts the n most recently consumed receives.
func (e *end) repost(l *lane, n int) error {
	_, err := l.qp.PostRecv(l.recvs[:n])
	return err
}
