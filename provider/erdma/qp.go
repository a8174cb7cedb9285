// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/dbrec"
)

// qp is a reliable connected queue pair.
type qp struct {
	num    uint32
	sendCQ *cq
	recvCQ *cq
	sq     sendQueue
	rq     recvQueue

	ctx    *Context
	handle uint32
	cap    provider.QPCap
	buf    *mem.Region // of both queues, the send queue's first. nil after Close
	record *dbrec.Record
	leak   *leak.Entry
	failed func(error, func() bool) // provider.QPConfig.Failed, or nil
	state  atomic.Uint32            // provider.QPState
	closed atomic.Bool

	holding   atomic.Bool   // the queues hold new requests
	heldSends atomic.Uint32 // sendQueue.head when holding began
	heldRecvs atomic.Uint32 // recvQueue.head when holding began
	failing   atomic.Bool   // a goroutine moves the QP to the error state
	resets    atomic.Uint32 // moves to RESET by Modify

	// commands is held by commands, because the kernel may reuse the handle of a destroyed QP, and by
	// SetState. It guards the next two.
	commands sync.Mutex
	timer    *time.Timer   // runs flushRest
	seen     flushProgress // when the timer was started
}

var _ provider.QP = (*qp)(nil)

func (q *qp) Handle() uint32 { return q.handle }

func (q *qp) Num() uint32 { return q.num }

func (q *qp) Cap() provider.QPCap { return q.cap }

func (q *qp) State() provider.QPState { return provider.QPState(q.state.Load()) }

// SetState records a state that the kernel has moved the QP to. On iWARP the error state is final, so
// later states are outdated. After a move to the error state, SetState makes the kernel do the same move
// once more. Then the adapter has stopped the queue pair.
func (q *qp) SetState(s provider.QPState) {
	if s == provider.QPErr {
		// The only possible error is that the QP no longer exists.
		_ = q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState)
		return
	}
	q.commands.Lock()
	defer q.commands.Unlock()
	if !q.closed.Load() && !(q.ctx.iwarp && q.State() == provider.QPErr) {
		q.setState(s)
	}
}

// Modify changes the attributes that mask names, and with QPAttrState the state. It waits for a Batch. A
// request is either posted before a move to the error state and flushed, or held.
func (q *qp) Modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	q.commands.Lock()
	defer q.commands.Unlock()
	return q.modify(attr, mask)
}

// modify is Modify for the holder of q.commands.
func (q *qp) modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	if q.closed.Load() {
		return net.ErrClosed
	}
	move := mask&provider.QPAttrState != 0
	if move {
		if err := q.checkMove(attr.State); err != nil {
			return err
		}
	}
	ends := move && attr.State == provider.QPErr
	held := q.holding.Load()
	if ends {
		q.hold()
	}
	cmd := provider.ModifyCommand(q.handle, attr, mask)
	if err := q.ctx.File.ModifyQP(&cmd); err != nil {
		if ends && !held {
			q.resume()
		}
		return err
	}
	switch {
	case ends:
		q.setState(attr.State)
		q.eachCQ(func(c *cq) { c.flushPosted(q) })
		q.awaitFlush()
	case move && attr.State == provider.QPReset && !q.ctx.iwarp:
		q.resets.Add(1)
		q.failing.Store(false)
		q.reset()
		q.setState(attr.State)
	case move:
		q.setState(attr.State)
	}
	return nil
}

// checkMove refuses a change that the kernel accepts without doing it. On iWARP a queue pair that was
// connected cannot be connected again, and SQD and SQE end a connection.
func (q *qp) checkMove(to provider.QPState) error {
	from := q.State()
	switch {
	case !q.ctx.iwarp, from == to, to == provider.QPErr, from < provider.QPRTS && to <= provider.QPRTS, from == provider.QPRTS && to > provider.QPRTS:
		return nil // the kernel judges
	}
	return fmt.Errorf("erdma: QP from %v to %v: %w", from, to, syscall.EINVAL)
}

// setState records a state and sets whether requests and receives may be posted. The caller holds q.commands.
func (q *qp) setState(s provider.QPState) {
	q.state.Store(uint32(s))
	q.admit(s == provider.QPRTS || s == provider.QPSQD || s == provider.QPSQE || s == provider.QPErr, s != provider.QPReset)
}

// admit sets whether requests may be posted.
func (q *qp) admit(send, recv bool) {
	q.sq.lock.Lock()
	q.sq.ready = send
	q.sq.lock.Unlock()
	q.rq.lock.Lock()
	q.rq.ready = recv
	q.rq.lock.Unlock()
}

// reset empties the queues, which the adapter does not use. The caller holds q.commands.
func (q *qp) reset() {
	q.admit(false, false)
	q.stopTimer()
	q.release()
	q.eachCQ(func(c *cq) { c.purge(q) })
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
}

func (q *qp) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// eachCQ calls f with each of the QP's CQs.
func (q *qp) eachCQ(f func(*cq)) {
	f(q.sendCQ)
	if q.recvCQ != q.sendCQ {
		f(q.recvCQ)
	}
}

// Query returns the attributes that the kernel's driver fills in. On iWARP it does not fill in the
// other attributes. The state is q.state then. The driver swaps the two depths, and the driver of Linux
// 6.1 returns 0 for both.
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
	if q.ctx.iwarp {
		state := q.State()
		a = provider.QPAttr{State: state, CurState: state, PathMTU: a.PathMTU, Access: a.Access, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic}
	}
	a.MaxRdAtomic, a.MaxDestRdAtomic = a.MaxDestRdAtomic, a.MaxRdAtomic
	a.Cap = q.cap
	return a, nil
}

// Close destroys the QP. Requests that have not completed never will, and the completions that are in
// its CQs are taken out.
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
	q.stopTimer()
	q.leak.Done()
	return q.free()
}

// awaitClose waits for a Close that runs, and reports whether the QP is closed.
func (q *qp) awaitClose() bool {
	q.commands.Lock()
	defer q.commands.Unlock()
	return q.closed.Load()
}

// free releases the resources of the QP, except the kernel's object, which does not exist.
func (q *qp) free() error {
	if q.num != 0 {
		q.ctx.qps.remove(q)
		q.eachCQ(func(c *cq) { c.purge(q) })
	}
	q.sq.lock.Lock()
	q.sq.maxPost = 0
	q.sq.lock.Unlock()
	var errs []error
	if q.record != nil {
		errs = append(errs, q.ctx.records.Free(q.record))
		q.record = nil
	}
	if q.buf != nil {
		errs = append(errs, q.buf.Free())
		q.buf = nil
	}
	return errors.Join(errs...)
}
