// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// qp is a queue pair.
//
// Commands name it by its handle, which the kernel reuses as soon as the QP is destroyed. So they
// run with rq.mu held, except for the doorbell, which ringing counts. Close takes rq.mu and waits
// for ringing before it destroys the QP.
type qp struct {
	file   *uverbs.File
	typ    provider.QPType
	srq    bool // in the place of rq
	handle uint32
	num    uint32
	cap    provider.QPCap
	bell   uverbs.Doorbell
	leak   *leak.Entry

	windows *windows            // the context's
	resp    abi.RxeCreateQPResp // of CreateQP. A variable there would be allocated

	state  atomic.Uint32 // provider.QPState
	closed atomic.Bool

	sq      sendQueue
	rq      recvQueue
	ringing sync.WaitGroup // doorbells in progress. Add and Wait hold sq.mu
}

// CreateQP makes a queue pair.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	ops, ok := opcodesOf(cfg.Type, c.caps)
	if !ok {
		return nil, fmt.Errorf("rxe: QP type %v: %w", cfg.Type, errors.ErrUnsupported)
	}
	if cfg.Cap.Inline > maxInline {
		return nil, fmt.Errorf("%d bytes inline, rxe has at most %d: %w", cfg.Cap.Inline, maxInline, syscall.EINVAL)
	}
	kcfg := uverbs.QPConfig{
		Type:       uint8(cfg.Type),
		PD:         cfg.PD.Handle(),
		SendCQ:     cfg.SendCQ.Handle(),
		RecvCQ:     cfg.RecvCQ.Handle(),
		UserHandle: cfg.UserHandle,
		Cap: abi.UverbsQPCap{
			MaxSendWR:     uint32(cfg.Cap.SendWR),
			MaxRecvWR:     uint32(cfg.Cap.RecvWR),
			MaxSendSGE:    uint32(cfg.Cap.SendSGE),
			MaxRecvSGE:    uint32(cfg.Cap.RecvSGE),
			MaxInlineData: uint32(cfg.Cap.Inline),
		},
	}
	if cfg.SRQ != nil {
		h := cfg.SRQ.Handle()
		kcfg.SRQ = &h
		kcfg.Cap.MaxRecvWR, kcfg.Cap.MaxRecvSGE = 0, 0
	}
	if cfg.SignalAll {
		kcfg.Flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	q := &qp{file: c.File, typ: cfg.Type, srq: cfg.SRQ != nil, windows: &c.windows}
	k, err := c.File.CreateQP(kcfg, uverbs.Driver{Out: abi.Bytes(&q.resp)})
	if err != nil {
		return nil, err
	}
	q.handle, q.num = k.Handle, k.Num
	q.bell.Init(c.File, k.Handle)
	q.sq.all = ops
	q.sq.ops.Store(uint32(ops))
	if err := q.mapQueues(k.Cap); err != nil {
		c.File.DestroyQP(k.Handle)
		return nil, err
	}
	q.leak = leak.Track("rxe QP", c.File.Info().Name)
	return q, nil
}

// maxInline is the room for the elements of a send request, 32 at most, which inline data takes
// (RXE_MAX_INLINE).
const maxInline = 32 * 16

// maxSlot bounds the kernel's numbers of elements or bytes of a slot, so that products of them do
// not overflow.
const maxSlot = 1 << 20

func (q *qp) mapQueues(k abi.UverbsQPCap) error {
	if k.MaxSendSGE > maxSlot || k.MaxRecvSGE > maxSlot || k.MaxInlineData > maxSlot {
		return fmt.Errorf("%w: %+v", ring.ErrLayout, k)
	}
	q.cap = provider.QPCap{SendSGE: int(k.MaxSendSGE), Inline: int(k.MaxInlineData)}
	// Elements and inline data share the end of a slot. The kernel's numbers are not trusted, so
	// the slots must have that room. An atomic write always has 8 bytes there.
	sendSlot := sendHeader + max(q.cap.SendSGE*abi.Size[abi.RxeSGE](), q.cap.Inline, 8)
	var err error
	if q.sq.ring, err = mapQueue(q.file, &q.sq.mapping, q.resp.SQMI, sendSlot); err != nil {
		return fmt.Errorf("send queue: %w", err)
	}
	q.sq.producer = q.sq.ring.LoadProducer()
	q.sq.published = q.sq.producer
	// The rings may exceed the requested sizes, and their actual sizes count.
	q.cap.SendWR = q.sq.ring.Cap()
	if q.srq {
		return nil
	}
	if err := q.rq.open(q.file, q.resp.RQMI, int(k.MaxRecvSGE)); err != nil {
		return errors.Join(fmt.Errorf("receive queue: %w", err), q.sq.mapping.Close())
	}
	q.cap.RecvWR, q.cap.RecvSGE = q.rq.ring.Cap(), q.rq.maxSGE
	return nil
}

func (q *qp) Handle() uint32 { return q.handle }

func (q *qp) Num() uint32 { return q.num }

func (q *qp) Cap() provider.QPCap { return q.cap }

func (q *qp) State() provider.QPState { return provider.QPState(q.state.Load()) }

func (q *qp) SetState(s provider.QPState) { q.state.Store(uint32(s)) }

// Modify holds rq.mu for one more reason than the handle. If a receive is posted before a move to
// the error state, the kernel flushes it. If it is posted after the move, PostRecv reads the new
// state and flushes it.
func (q *qp) Modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.closed.Load() {
		return net.ErrClosed
	}
	cmd := provider.ModifyCommand(q.handle, attr, mask)
	if err := q.file.ModifyQP(&cmd); err != nil {
		return err
	}
	if mask&provider.QPAttrMaxRdAtomic != 0 {
		ops := q.sq.all
		if attr.MaxRdAtomic == 0 {
			ops &^= reads
		}
		q.sq.ops.Store(uint32(ops))
	}
	if mask&provider.QPAttrState == 0 {
		return nil
	}
	from := q.State()
	q.SetState(attr.State)
	if from == provider.QPSQD && attr.State == provider.QPRTS {
		// Held requests wait for the next doorbell, because rxe does not check the queue by itself.
		// The doorbell fails if the device is being removed, though the QP is in RTS.
		return q.bell.Ring()
	}
	return nil
}

func (q *qp) Query() (provider.QPAttr, error) {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.closed.Load() {
		return provider.QPAttr{}, net.ErrClosed
	}
	resp, err := q.file.QueryQP(q.handle, ^uint32(0)>>11) // all of enum ib_qp_attr_mask
	if err != nil {
		return provider.QPAttr{}, err
	}
	return provider.AttrFromQuery(&resp), nil
}

// usable returns the reason why nothing may be posted at all, or nil.
func (q *qp) usable() error {
	if q.closed.Load() || q.file.Closed() {
		return net.ErrClosed
	}
	return nil
}

// Close destroys the QP. Its completions stay in its CQs. Linux 5.10 assigns its number to the next QP if
// no QP was created since. Later kernels assign numbers in turn.
func (q *qp) Close() error {
	// When both locks are held, no poster is active. Later posters find closed set.
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.closed.Load() {
		return nil
	}
	q.ringing.Wait()
	if err := q.file.Destroyed(func() error { return q.file.DestroyQP(q.handle) }); err != nil {
		return err
	}
	q.closed.Store(true)
	q.leak.Done()
	if q.srq {
		return q.sq.mapping.Close()
	}
	return q.file.ClosePair(&q.sq.mapping, q.rq.mapping)
}
