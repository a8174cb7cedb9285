// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// qp is a reliable connected queue pair.
type qp struct {
	ctx    *Context
	handle uint32
	num    uint32
	cap    provider.QPCap
	bell   uverbs.Doorbell
	leak   *leak.Entry
	srq    *srq // or nil

	state  atomic.Uint32 // provider.QPState
	closed atomic.Bool

	// The lock of the send queue is taken before the receive queue's.
	sq sendQueue
	rq recvQueue
}

// CreateQP makes a queue pair. RC is the only type.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	if cfg.Type != provider.RC {
		return nil, fmt.Errorf("siw: QP type %v, iWARP has only RC: %w", cfg.Type, errors.ErrUnsupported)
	}
	asked := cfg.Cap
	asked.SendWR = max(asked.SendWR, 1) // siw has no QP without a send queue
	if cfg.SRQ != nil {
		asked.RecvWR, asked.RecvSGE = 0, 0
	}
	kcfg := uverbs.QPConfig{
		Type:       uint8(cfg.Type),
		PD:         cfg.PD.Handle(),
		SendCQ:     cfg.SendCQ.Handle(),
		RecvCQ:     cfg.RecvCQ.Handle(),
		UserHandle: cfg.UserHandle,
		Cap: abi.UverbsQPCap{
			MaxSendWR:     withSpare(asked.SendWR),
			MaxRecvWR:     withSpare(asked.RecvWR),
			MaxSendSGE:    uint32(asked.SendSGE),
			MaxRecvSGE:    uint32(asked.RecvSGE),
			MaxInlineData: uint32(asked.Inline),
		},
	}
	var shared *srq
	if cfg.SRQ != nil {
		var ok bool
		if shared, ok = cfg.SRQ.(*srq); !ok {
			return nil, fmt.Errorf("siw: an SRQ of another driver: %w", syscall.EINVAL)
		}
		h := cfg.SRQ.Handle()
		kcfg.SRQ = &h
	}
	if cfg.SignalAll {
		kcfg.Flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	var resp abi.SiwUrespCreateQP
	k, err := c.File.CreateQP(kcfg, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	q := &qp{ctx: c, handle: k.Handle, num: k.Num, srq: shared}
	q.bell.Init(c.File, k.Handle)
	q.sq.signalAll = cfg.SignalAll
	var ok1, ok2 bool
	q.sq.cq, ok1 = cfg.SendCQ.(*cq)
	q.rq.cq, ok2 = cfg.RecvCQ.(*cq)
	if !ok1 || !ok2 {
		err = fmt.Errorf("siw: a CQ of another driver: %w", syscall.EINVAL)
	} else {
		err = q.mapQueues(&resp, &asked, k.Cap)
	}
	if err != nil {
		c.File.DestroyQP(k.Handle)
		return nil, err
	}
	q.leak = leak.Track("siw QP", c.File.Info().Name)
	return q, nil
}

// mapQueues maps the queues that the kernel made for the requested sizes.
func (q *qp) mapQueues(resp *abi.SiwUrespCreateQP, asked *provider.QPCap, k abi.UverbsQPCap) error {
	if (resp.NumRQE == 0) != (asked.RecvWR <= 0) || resp.NumRQE != 0 && resp.RQKey == resp.SQKey {
		return fmt.Errorf("receive queue: %w: %d slots instead of %d, mapped by %#x", ring.ErrLayout, resp.NumRQE, asked.RecvWR, resp.RQKey)
	}
	if err := q.sq.open(q.ctx.File, resp, asked, k.MaxSendSGE); err != nil {
		return fmt.Errorf("send queue: %w", err)
	}
	// The queues may exceed the requested sizes. Their actual sizes, less the spare slot, count.
	// Every slot has room for inline data.
	q.sq.spare = spare(q.sq.slots.Len(), asked.SendWR)
	q.cap = provider.QPCap{SendWR: q.sq.slots.Len() - int(q.sq.spare), SendSGE: q.sq.maxSGE, Inline: abi.SIW_MAX_INLINE}
	if resp.NumRQE == 0 {
		return nil // no queue, or replaced by an SRQ
	}
	if err := q.rq.open(q.ctx.File, resp.RQKey, resp.NumRQE, withSpare(asked.RecvWR), k.MaxRecvSGE, asked.RecvSGE); err != nil {
		return errors.Join(fmt.Errorf("receive queue: %w", err), q.sq.mapping.Close())
	}
	q.rq.spare = spare(q.rq.slots.Len(), asked.RecvWR)
	q.cap.RecvWR, q.cap.RecvSGE = q.rq.slots.Len()-int(q.rq.spare), q.rq.maxSGE
	return nil
}

func (q *qp) Handle() uint32 { return q.handle }

func (q *qp) Num() uint32 { return q.num }

func (q *qp) Cap() provider.QPCap { return q.cap }

func (q *qp) State() provider.QPState { return provider.QPState(q.state.Load()) }

// SetState records a state that the kernel has moved the QP to. The error state is final, so later
// states are outdated. After a move to the error state, SetState makes the kernel do the same move
// once more. Then the kernel no longer touches the queues, and SetState flushes them.
func (q *qp) SetState(s provider.QPState) {
	if s != provider.QPErr {
		for {
			old := q.state.Load()
			if old == uint32(provider.QPErr) || q.state.CompareAndSwap(old, uint32(s)) {
				return
			}
		}
	}
	// The only possible error is that the QP no longer exists.
	_ = q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState)
}

// Modify holds the locks of both queues, and so it waits for a Batch. A request is either posted
// before it and flushed, or its poster reads the new state. The kernel also refuses a doorbell
// while it changes the QP.
func (q *qp) Modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	q.sq.mu.Lock()
	q.rq.mu.Lock()
	flushed, err := q.modify(attr, mask)
	q.rq.mu.Unlock()
	q.sq.mu.Unlock()
	if flushed {
		q.sq.cq.notify()
		if q.rq.cq != q.sq.cq {
			q.rq.cq.notify()
		}
	}
	return err
}

func (q *qp) modify(attr *provider.QPAttr, mask provider.QPAttrMask) (flushed bool, err error) {
	if q.closed.Load() {
		return false, net.ErrClosed
	}
	if mask&provider.QPAttrState != 0 {
		if err := q.checkMove(attr.State); err != nil {
			return false, err
		}
	}
	cmd := provider.ModifyCommand(q.handle, attr, mask)
	if err := q.ctx.File.ModifyQP(&cmd); err != nil {
		return false, err
	}
	if mask&provider.QPAttrState == 0 {
		return false, nil
	}
	q.state.Store(uint32(attr.State))
	if attr.State != provider.QPErr {
		return false, nil
	}
	sends, recvs := q.sq.sweep(q.num), q.rq.sweep(q.num)
	return sends || recvs, nil
}

// checkMove refuses a change that siw accepts without doing it. A QP that was connected cannot be
// connected again.
func (q *qp) checkMove(to provider.QPState) error {
	from := q.State()
	if from < provider.QPRTS || from == to || to == provider.QPErr || from == provider.QPRTS && to > provider.QPRTS {
		return nil // the kernel judges
	}
	return fmt.Errorf("siw: QP from %v to %v: %w", from, to, syscall.EINVAL)
}

// Query returns the attributes that siw fills in, and the QP's state as recorded here. siw of Linux
// 6.1 does not fill in the state, and the kernel then copies memory that it has not cleared. siw
// swaps the two depths.
//
// It holds rq.mu, because the kernel reuses the handle of a destroyed QP, and Close takes that
// lock. A post of a READ holds sq.mu when it calls Query.
func (q *qp) Query() (provider.QPAttr, error) {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.closed.Load() {
		return provider.QPAttr{}, net.ErrClosed
	}
	resp, err := q.ctx.File.QueryQP(q.handle, ^uint32(0)>>11) // all of enum ib_qp_attr_mask
	if err != nil {
		return provider.QPAttr{}, err
	}
	k := provider.AttrFromQuery(&resp)
	state := q.State()
	return provider.QPAttr{
		State:           state,
		CurState:        state,
		PathMTU:         k.PathMTU,
		Access:          k.Access,
		Cap:             q.cap,
		MaxRdAtomic:     k.MaxDestRdAtomic,
		MaxDestRdAtomic: k.MaxRdAtomic,
	}, nil
}

// usable returns the reason why nothing may be posted at all, or nil.
func (q *qp) usable() error {
	if q.closed.Load() || q.ctx.File.Closed() {
		return net.ErrClosed
	}
	return nil
}

// Close destroys the QP and removes its completions from its CQs, because the next QP may have the
// same number.
func (q *qp) Close() error {
	// When both locks are held, no poster is active. Later posters find closed set.
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.closed.Load() {
		return nil
	}
	if err := q.ctx.File.Destroyed(func() error { return q.ctx.File.DestroyQP(q.handle) }); err != nil {
		return err
	}
	q.closed.Store(true)
	var dropped func(uint64)
	if q.srq != nil {
		dropped = q.srq.dropped
	}
	q.sq.cq.purge(q.num, dropped)
	if q.rq.cq != q.sq.cq {
		q.rq.cq.purge(q.num, dropped)
	}
	q.leak.Done()
	if q.rq.mapping.Bytes() == nil {
		return q.sq.mapping.Close()
	}
	return q.ctx.File.ClosePair(&q.sq.mapping, &q.rq.mapping)
}
