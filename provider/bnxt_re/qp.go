// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// qp is a queue pair of type RC or UD.
type qp struct {
	cookie    uint64 // the handle in completions
	num       uint32
	datagrams bool
	sendCQ    *cq
	recvCQ    *cq
	srq       *srq // or nil
	sq        sendQueue
	rq        recvQueue

	ctx    *Context
	handle uint32
	cap    provider.QPCap
	buf    *mem.Region // of both queues, the send queue's first. nil after Close
	leak   *leak.Entry
	failed func(error, func() bool) // provider.QPConfig.Failed, or nil
	state  atomic.Uint32            // provider.QPState
	closed atomic.Bool

	stopping atomic.Bool // a goroutine sets stopped
	stopped  atomic.Bool // the provider flushes the posted requests
	// resets counts the moves to RESET by Modify. failure is 1 more than its value when the QP failed, while a goroutine moves
	// the QP to the error state, or 0.
	resets, failure atomic.Uint64

	// commands is held by commands, because the kernel may reuse the handle of a destroyed QP, and by SetState.
	commands sync.Mutex
}

var _ provider.QP = (*qp)(nil)

func (q *qp) Handle() uint32 { return q.handle }

func (q *qp) Num() uint32 { return q.num }

func (q *qp) Cap() provider.QPCap { return q.cap }

func (q *qp) State() provider.QPState { return provider.QPState(q.state.Load()) }

// SetState records a state that another party has moved the QP to.
func (q *qp) SetState(s provider.QPState) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if !q.closed.Load() {
		q.setState(s)
	}
}

// Modify changes the attributes that mask names, and with QPAttrState the state. It waits for a Batch. A reset drops the
// requests in the queues and their completions.
func (q *qp) Modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	q.commands.Lock()
	defer q.commands.Unlock()
	return q.modifyLocked(attr, mask)
}

// modifyLocked is Modify for the holder of q.commands.
func (q *qp) modifyLocked(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	if q.closed.Load() {
		return net.ErrClosed
	}
	move := mask&provider.QPAttrState != 0
	reset := move && attr.State == provider.QPReset
	if mask&provider.QPAttrRateLimit != 0 && !q.ctx.caps.rates {
		return unsupported("limits of the rate of a QP")
	}
	if mask&provider.QPAttrPathMTU != 0 && attr.PathMTU.Bytes() == 0 {
		return fmt.Errorf("bnxt_re: path MTU %d: %w", attr.PathMTU, syscall.EINVAL)
	}
	if reset {
		q.admit(false, false)
	}
	if err := q.modify(attr, mask); err != nil {
		q.setState(q.State()) // also what admit has changed
		return err
	}
	q.sq.setPath(attr, mask)
	if reset {
		q.reset()
	}
	if move {
		q.setState(attr.State)
	}
	return nil
}

// modify runs the command that the attributes need.
func (q *qp) modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	cmd := provider.ModifyCommand(q.handle, attr, mask)
	if mask&provider.QPAttrRateLimit == 0 {
		return q.ctx.File.ModifyQP(&cmd)
	}
	return q.ctx.File.ModifyQPEx(&abi.UverbsExModifyQP{Base: cmd, RateLimit: attr.RateLimit}, uverbs.Driver{})
}

// setPath records the attributes that the search table needs.
func (s *sendQueue) setPath(attr *provider.QPAttr, mask provider.QPAttrMask) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if mask&provider.QPAttrSQPSN != 0 {
		s.at.psn, s.posted.psn = attr.SQPSN, attr.SQPSN
	}
	if mask&provider.QPAttrPathMTU != 0 {
		s.search.mtuShift = mtuShift(attr.PathMTU)
	}
}

// mtuShift returns the logarithm of a path MTU.
func mtuShift(m provider.MTU) uint8 { return uint8(m) + 7 }

// setState records a state, sets whether requests and receives may be posted, and in the error state has the provider
// flush them. The caller holds q.commands.
func (q *qp) setState(s provider.QPState) {
	q.state.Store(uint32(s))
	q.admit(s == provider.QPRTS || s == provider.QPSQD || s == provider.QPSQE || s == provider.QPErr, s != provider.QPReset)
	if s == provider.QPErr {
		q.flushQueues(true, true)
		q.halted()
	}
}

// admit sets whether requests may be posted.
func (q *qp) admit(send, recv bool) {
	q.sq.lock.Lock()
	q.sq.ready = send
	q.sq.lock.Unlock()
	q.rq.lock.Lock()
	q.rq.ready = recv && q.rq.max > 0
	q.rq.lock.Unlock()
}

// reset empties the queues, which the adapter does not use. The caller holds q.commands.
func (q *qp) reset() {
	q.eachCQ(func(c *cq) { c.purge(q) })
	q.resets.Add(1) // no poll can find an entry from before the reset
	s, r := &q.sq, &q.rq
	s.lock.Lock()
	q.sendCQ.lock.Lock()
	s.reset()
	q.sendCQ.lock.Unlock()
	s.lock.Unlock()
	r.lock.Lock()
	q.recvCQ.lock.Lock()
	r.reset()
	q.recvCQ.lock.Unlock()
	r.lock.Unlock()
	q.stopping.Store(false)
	q.stopped.Store(false)
}

// eachCQ calls f with each of the QP's CQs.
func (q *qp) eachCQ(f func(*cq)) {
	f(q.sendCQ)
	if q.recvCQ != q.sendCQ {
		f(q.recvCQ)
	}
}

// Query returns the attributes that the kernel's driver fills in.
func (q *qp) Query() (provider.QPAttr, error) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() {
		return provider.QPAttr{}, net.ErrClosed
	}
	resp, err := q.ctx.File.QueryQP(q.handle, ^uint32(0)>>11) // all of enum ib_qp_attr_mask
	if err != nil {
		return provider.QPAttr{}, err
	}
	a := provider.AttrFromQuery(&resp)
	a.Cap = q.cap
	return a, nil
}

// Close destroys the QP. Requests that have not completed never will, and the completions that are in its CQs are taken
// out.
func (q *qp) Close() error {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Swap(true) {
		return nil
	}
	q.admit(false, false)
	if err := q.ctx.File.Destroyed(func() error { return q.ctx.File.DestroyQP(q.handle) }); err != nil {
		q.closed.Store(false)
		q.setState(q.State())
		return err
	}
	q.leak.Done()
	return q.free()
}

// free releases the resources of the QP, except the kernel's object, which does not exist.
func (q *qp) free() error {
	q.ctx.qps.remove(q)
	q.eachCQ(func(c *cq) { c.purge(q) })
	q.ctx.qps.release(q.cookie)
	q.ctx.doorbells.push.put(q.sq.push)
	q.sq.lock.Lock()
	q.sq.maxPost, q.sq.push = 0, nil
	q.sq.lock.Unlock()
	if q.buf == nil {
		return nil
	}
	err := q.buf.Free()
	q.buf = nil
	return err
}
