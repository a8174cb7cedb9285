// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/uverbs"
)

// QP is a queue pair. Besides provider.QP it has methods for features of mlx5 devices. Programs
// reach them by a type assertion of verbs.QP.Provider().
type QP struct {
	num    uint32
	index  uint32 // user index
	typ    provider.QPType
	pd     *pd  // nil if it is of type XRC_RECV
	srq    *SRQ // or nil
	sendCQ *CQ  // nil if it sends nothing
	recvCQ *CQ  // nil if it receives nothing
	sq     sendQueue
	rq     recvQueue

	ctx       *Context
	file      *uverbs.File
	handle    uint32
	cap       provider.QPCap
	dct       bool
	recvReady atomic.Bool // the QP's state lets receives be posted. See QP.allow
	indexed   bool        // index counts
	// scatterPDs holds the PDs that have counted the QP as one with data in completions.
	scatterPDs []*pd
	db         *doorbell
	buf        *mem.Region // of both queues, the receive queue's first. nil after Close
	sqBuf      *mem.Region // of the send queue, if it has one of its own
	leak       *leak.Entry
	failed     func(error, func() bool) // provider.QPConfig.Failed, or nil
	state      atomic.Uint32            // provider.QPState
	failure    atomic.Uint32            // qpSound, qpFailing or qpFailed
	closed     atomic.Bool
	// commands is held by Modify, Query, end and Close, because the kernel reuses the
	// handle of a destroyed QP, and by SetState. It also guards the next three.
	commands sync.Mutex
	ece      uint32 // options of enhanced connection establishment that the device has granted
	nextECE  uint32 // options for the next Modify, 0 for none
	resets   uint32 // counts the moves to RESET by Modify
}

var _ provider.ECEQP = (*QP)(nil)

// Handle is the kernel's handle of the QP.
func (q *QP) Handle() uint32 { return q.handle }

// Num returns the number by which the peer names the QP. A DCT has the number 0 before RTR.
func (q *QP) Num() uint32 { return q.num }

// Cap returns the capacities of the QP.
func (q *QP) Cap() provider.QPCap { return q.cap }

// State is the state that Modify or SetState moved the QP to last.
func (q *QP) State() provider.QPState { return provider.QPState(q.state.Load()) }

// PostRecv posts receives in order.
func (q *QP) PostRecv(wrs []provider.RecvWR) (int, error) {
	r := &q.rq
	if !r.unlocked {
		r.lock.Lock()
	}
	var n int
	var err error
	if !q.recvReady.Load() || q.file.Closed() {
		err = q.recvNotReady()
	} else {
		n, err = r.post(wrs)
	}
	if !r.unlocked {
		r.lock.Unlock()
	}
	return n, err
}

// recvNotReady returns the reason why the queue takes no receives.
func (q *QP) recvNotReady() error {
	switch {
	case q.closed.Load() || q.file.Closed():
		return net.ErrClosed
	case q.cap.RecvWR == 0:
		return fmt.Errorf("mlx5: receive on a QP without a receive queue: %w", syscall.EINVAL)
	}
	return &provider.QPStateError{State: q.State()}
}

// Query queries the attributes from the kernel.
func (q *QP) Query() (provider.QPAttr, error) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() {
		return provider.QPAttr{}, net.ErrClosed
	}
	resp, err := q.file.QueryQP(q.handle, ^uint32(0)>>11) // all of enum ib_qp_attr_mask
	if err != nil {
		return provider.QPAttr{}, err
	}
	a := provider.AttrFromQuery(&resp)
	a.Cap = q.cap
	if q.failure.Load() == qpFailed {
		a.State, a.CurState = provider.QPErr, provider.QPErr
	}
	return a, nil
}

// Close destroys the QP. Requests that have not completed never will, and the
// completions that are in its CQs are taken out.
func (q *QP) Close() error {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Swap(true) {
		return nil
	}
	q.admit(false, false)
	if err := q.file.Destroyed(func() error { return q.file.DestroyQP(q.handle) }); err != nil {
		q.closed.Store(false)
		q.setState(q.State())
		return err
	}
	q.leak.Done()
	return q.free()
}

// ReportsLastWQE implements provider.LastWQEReporter. A message of UD is one packet, so its receive
// is not left in progress.
func (q *QP) ReportsLastWQE() bool {
	return q.srq != nil && (q.typ == provider.RC || q.typ == provider.UC)
}

// purge takes the completions of the QP out of its CQs.
func (q *QP) purge() {
	if q.recvCQ != nil {
		q.recvCQ.purgeQP(q)
	}
	if q.sendCQ != nil && q.sendCQ != q.recvCQ {
		q.sendCQ.purgeQP(q)
	}
}

// free releases the resources of the QP, except the kernel's object, which does not exist.
func (q *QP) free() error {
	var errs []error
	if q.indexed {
		q.removeIndex()
	}
	q.dropScatter()
	q.lockBoth()
	q.sq.maxPost = 0
	q.ctx.uars.put(q.sq.reg)
	q.sq.reg = nil
	if q.db != nil {
		errs = append(errs, q.ctx.freeDB(q.db))
		q.db = nil
	}
	for _, r := range []**mem.Region{&q.buf, &q.sqBuf} {
		if *r != nil {
			errs = append(errs, (*r).Free())
			*r = nil
		}
	}
	q.unlockBoth()
	return errors.Join(errs...)
}

// lockBoth takes the locks of both queues, the send queue's first.
func (q *QP) lockBoth() {
	if !q.sq.unlocked {
		q.sq.lock.Lock()
		q.rq.lock.Lock()
	}
}

func (q *QP) unlockBoth() {
	if !q.sq.unlocked {
		q.rq.lock.Unlock()
		q.sq.lock.Unlock()
	}
}

// reset empties the queues, which the device does not use. The caller holds the locks of the
// queues. reset takes the locks of the CQs, which guard the tails.
func (q *QP) reset() {
	s := &q.sq
	s.cur = 0
	s.setFence(0)
	mmio.Record(s.bell.Record, 0)
	if q.sendCQ != nil {
		q.sendCQ.acquire()
		s.forget()
		q.sendCQ.release()
	}
	if q.cap.RecvWR > 0 {
		q.recvCQ.acquire()
		q.rq.reset()
		q.recvCQ.release()
		q.rq.mute = s.transport == transportRaw
	}
}
