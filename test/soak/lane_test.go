// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// hello is the message of each side through the connection manager.
type hello struct {
	lane, gen uint32
	memory    verbs.RemoteMemory
}

func (h hello) bytes() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, h.lane)
	b = le.AppendUint32(b, h.gen)
	b, _ = h.memory.AppendBinary(b)
	return b
}

func parseHello(b []byte) (h hello, err error) {
	const length = 8 + verbs.RemoteMemoryLen
	if len(b) < length {
		return h, fmt.Errorf("%d bytes of private data", len(b))
	}
	le := binary.LittleEndian
	h.lane, h.gen = le.Uint32(b), le.Uint32(b[4:])
	return h, h.memory.UnmarshalBinary(b[8:length])
}

func (e *end) hello() []byte {
	return hello{e.lane, e.gen, e.mem.mr.Remote()}.bytes()
}

// peer processes the hello of the other side.
func (e *end) peer(b []byte) error { return e.mem.meet(e.lane, e.gen, b) }

// meet takes the description of the peer's region from its hello.
func (m *memory) meet(lane, gen uint32, b []byte) error {
	h, err := parseHello(b)
	if err != nil {
		return err
	}
	if h.lane != lane || h.gen != gen {
		return fmt.Errorf("lane %d.%d has answered", h.lane, h.gen)
	}
	if h.memory.Length != regionLen {
		return fmt.Errorf("lane %d.%d has %v, want %d bytes", h.lane, h.gen, h.memory, regionLen)
	}
	m.remote = h.memory
	return nil
}

// param returns the connection parameters of both sides.
func (e *end) param() *cm.ConnParam {
	return &cm.ConnParam{PrivateData: e.hello(), ResponderResources: readDepth, InitiatorDepth: readDepth}
}

// access sets the rights of the peer. The connection manager does not set FLUSH.
func (e *end) access() error {
	if !e.node.caps.flush {
		return nil
	}
	err := e.qp.Modify(&verbs.QPAttr{Access: e.node.caps.access}, verbs.QPAttrAccess)
	if err != nil && e.qp.State() == verbs.QPErr {
		return nil // the peer has already broken off
	}
	return err
}

// conn is the connection of an end, a *cm.Conn or a fakeConn.
type conn interface {
	Done() <-chan struct{} // closed when the connection has ended
	Close() error          // ends it, and moves the QP to the error state
}

// target is the peer of a lane.
type target struct {
	addr    string
	dropped func() bool
}

// lane connects repeatedly until the time is up.
func (n *node) lane(number uint32, next func() (target, bool)) {
	for gen := uint32(1); n.s.ctx.Err() == nil && n.s.failed.Err() == nil; gen++ {
		to, ok := next()
		if !ok {
			return
		}
		switch err := n.active(number, gen, to); {
		case err == nil:
		case errors.Is(err, errLate):
			n.s.stats.late.Add(1)
		case to.dropped() || n.caps.iwarp && errors.Is(err, syscall.EADDRINUSE):
			time.Sleep(50 * time.Millisecond) // another process is starting, or see iwarp_test.go
		default:
			n.s.fault("lane %d.%d: %w", number, gen, err)
			return
		}
	}
}

// active is one connection of a lane.
func (n *node) active(number, gen uint32, to target) error {
	ctx, cancel := n.connecting()
	defer cancel()
	d := cm.Dialer{Host: n.rdma, LocalAddr: local(n.host)}
	r, err := d.Resolve(ctx, "tcp", to.addr)
	if err != nil {
		return err
	}
	defer r.Close()
	if number&flightBit != 0 {
		return n.activeFlight(ctx, r, number, gen, to)
	}
	e, err := newEnd(n, number, gen, 0)
	if err != nil {
		return err
	}
	defer e.free()
	e.dropped = to.dropped
	if err := r.Init(e.qp); err != nil {
		return err
	}
	e.receive()
	conn, err := n.connect(r, e.qp, e.param())
	if err == nil {
		err = errors.Join(e.peer(conn.PrivateData()), e.access())
		if err == nil {
			n.s.stats.connections.Add(1)
			e.start()
			e.await(conn)
			return nil
		}
		conn.Close()
	}
	return err
}

// await handles the end of a connection.
func (e *end) await(conn conn) {
	e.watch(conn)
	e.mu.Lock()
	over := e.over
	e.mu.Unlock()
	if over != nil && e.side == 0 {
		e.s.stats.broken.Add(1)
	}
	srq := e.place.pool != nil
	switch {
	case over == nil && e.side == 1 && e.s.failed.Err() == nil:
		// The active side closes first.
		select {
		case <-conn.Done():
		case <-time.After(e.s.patience):
			e.fault("the peer has not closed the connection")
		case <-e.s.failed.Done():
		}
	case over == errPlanned && e.plan.ending == closeQP && !srq:
		e.check("closing windows", e.closeWindows())
		e.check("closing a QP", e.qp.Close())
		e.check("closing a connection whose QP is closed", conn.Close())
		return
	case over == errPlanned && e.plan.ending == closeMR:
		e.mu.Lock()
		e.check("closing a region", e.mem.mr.Close())
		e.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // the peer continues
		e.toError()
	case over == errPlanned && e.plan.ending == toError:
		e.toError()
		time.Sleep(20 * time.Millisecond)
	}
	e.check("closing a connection", conn.Close())
	e.toError()
	e.drain()
	e.late()
	if srq {
		// When the QP is closed, its receives in the CQ may be removed.
		e.place.pool.hub.drain(make([]verbs.WC, 8))
	}
	e.judge()
}

func (e *end) check(what string, err error) {
	if err != nil {
		e.fault("%s: %w", what, err)
	}
}

func (e *end) toError() {
	e.check("QP to ERR", e.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
}

// watch waits for the end, and checks for progress before it.
func (e *end) watch(conn conn) {
	last, since := -1, time.Now()
	for {
		select {
		case <-e.ended:
			return
		case <-e.s.failed.Done():
			e.mu.Lock()
			if d := time.Since(since); d > e.s.patience/2 && e.over == nil { // it may be the reason for the peer's failure
				e.fault("nothing had moved for %v either: %s", d, e.state())
			}
			e.mu.Unlock()
			return
		case <-conn.Done():
			e.mu.Lock()
			e.broke(errors.New("the peer has ended the connection"))
			e.mu.Unlock()
			return
		case <-time.After(time.Second):
		}
		e.mu.Lock()
		switch stands := time.Since(since); {
		case e.progress != last:
			last, since = e.progress, time.Now()
		case stands > e.s.patience/4 && e.dropped():
			e.s.stats.silent.Add(1)
			e.broke(errors.New("the peer was killed, and nobody has said so"))
		case stands > e.s.patience:
			e.fault("nothing has moved for %v: %s", e.s.patience, e.state())
		case !e.heard:
			e.nudge()
		}
		e.mu.Unlock()
	}
}

// state describes the state of a waiting end.
func (e *end) state() string {
	a, err := e.qp.Query()
	qp := fmt.Sprintf("QP %d to %d in %v, PSN %d out and %d in", e.qp.Num(), a.DestQPNum, a.State, a.SQPSN, a.RQPSN)
	if err != nil {
		qp = err.Error()
	}
	return fmt.Sprintf("%d completions; %d messages sent of %d, %d of them seen; %d received, the peer knows of %d; %d requests under way, %d not posted; %d offers, %d tasks, %d free slots; quiet %v/%v, fin sent %v, done %v, received %v; %s",
		e.progress, e.sent, e.quota, e.acked, e.got, e.told, len(e.out), len(e.queue), len(e.offers), len(e.tasks), len(e.slotsOK), e.weQuiet, e.quiet, e.finSent, e.finDone, e.fin != nil, qp)
}

// serve accepts connections until the listener is closed. It returns when the last connection
// has ended.
func (n *node) serve(ln *cm.Listener) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		req, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		wg.Go(func() {
			defer req.Close()
			if err := n.passive(req); err != nil {
				n.s.fault("accepting: %w", err)
			}
		})
	}
}

func (n *node) passive(req *cm.Request) error {
	ctx, cancel := context.WithTimeout(n.s.failed, n.s.patience)
	defer cancel()
	h, err := parseHello(req.PrivateData())
	if err != nil {
		return err
	}
	if h.lane&flightBit != 0 {
		return n.passiveFlight(ctx, req, h.lane, h.gen)
	}
	e, err := newEnd(n, h.lane, h.gen, 1)
	if err != nil {
		return err
	}
	defer e.free()
	if err := errors.Join(e.peer(req.PrivateData()), req.Init(e.qp)); err != nil {
		return err
	}
	e.receive()
	conn, err := req.Accept(ctx, e.qp, e.param())
	if n.givenUp(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	if err := e.access(); err != nil {
		conn.Close()
		return err
	}
	e.start()
	e.await(conn)
	return nil
}
