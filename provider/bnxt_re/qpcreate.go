// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// CreateQP makes a queue pair of type RC or UD.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	if cfg.Type != provider.RC && cfg.Type != provider.UD {
		return nil, unsupported("QP type %v", cfg.Type)
	}
	q := &qp{ctx: c, datagrams: cfg.Type == provider.UD, failed: cfg.Failed}
	var ok1, ok2 bool
	ok3 := true
	q.sendCQ, ok1 = cfg.SendCQ.(*cq)
	q.recvCQ, ok2 = cfg.RecvCQ.(*cq)
	if cfg.SRQ != nil {
		q.srq, ok3 = cfg.SRQ.(*srq)
	}
	if !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("bnxt_re: CQ or SRQ: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	shape, err := c.caps.queues(cfg)
	if err != nil {
		return nil, err
	}
	if err := c.needDoorbells(); err != nil {
		return nil, err
	}
	if q.cookie, err = c.qps.reserve(); err != nil {
		return nil, err
	}
	if err := q.create(cfg, shape); err != nil {
		return nil, errors.Join(err, q.free())
	}
	q.leak = leak.Track("bnxt_re QP", c.File.Info().Name)
	return q, nil
}

func (q *qp) create(cfg *provider.QPConfig, shape *queueShape) (err error) {
	page := q.ctx.pageSize
	sendSize := alignUp(shape.sendBytes(), page)
	if q.buf, err = mem.Alloc(sendSize + alignUp(shape.recvBytes(), page)); err != nil {
		return fmt.Errorf("bnxt_re: memory of the queues: %w", err)
	}
	buf := q.buf.Bytes()
	kcfg := uverbs.QPConfig{
		Type:       uint8(cfg.Type),
		PD:         cfg.PD.Handle(),
		SendCQ:     cfg.SendCQ.Handle(),
		RecvCQ:     cfg.RecvCQ.Handle(),
		UserHandle: cfg.UserHandle,
		// The kernel computes the same sizes from these.
		Cap: abi.UverbsQPCap{
			MaxSendWR:     uint32(cfg.Cap.SendWR),
			MaxRecvWR:     uint32(cfg.Cap.RecvWR),
			MaxSendSGE:    uint32(cfg.Cap.SendSGE),
			MaxRecvSGE:    uint32(max(cfg.Cap.RecvSGE, 1)),
			MaxInlineData: uint32(cfg.Cap.Inline),
		},
	}
	if cfg.SignalAll {
		kcfg.Flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	req := abi.BnxtReQPReq{QPSVA: abi.NewSlicePointer(buf), QPHandle: q.cookie}
	if q.srq != nil {
		h := q.srq.handle
		kcfg.SRQ = &h
	} else {
		req.QPRVA = abi.NewSlicePointer(buf[sendSize:])
	}
	if q.ctx.caps.variable {
		req.SQSlots = uint32(shape.slots)
	}
	var resp abi.BnxtReQPResp
	k, err := q.ctx.File.CreateQP(kcfg, uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	q.handle, q.num = k.Handle, k.Num
	if resp.QPID != k.Num || k.Num&^numMask != 0 {
		return errors.Join(unsupported("the kernel made QP %#x (%#x)", k.Num, resp.QPID), q.ctx.File.DestroyQP(k.Handle))
	}
	q.open(cfg, shape, unsafe.Pointer(unsafe.SliceData(buf)), sendSize)
	q.ctx.qps.add(q)
	return nil
}

// open lays the queues out.
func (q *qp) open(cfg *provider.QPConfig, shape *queueShape, base unsafe.Pointer, sendSize int) {
	c := q.ctx
	s := &q.sq
	s.buf, s.depth, s.entries = base, uint32(shape.slots), uint32(shape.entries)
	s.maxPost, s.maxSGE, s.maxData = uint32(shape.sends), shape.sendSGE, uint32(shape.inline)
	s.pending = unsafe.Pointer(unsafe.SliceData(make([]pendingWR, shape.entries)))
	s.variable, s.atomics = c.caps.variable, c.caps.atomics
	s.num, s.ring, s.file = bell(bellSQ, q.num), c.ringer(), c.File
	s.search = search{base: unsafe.Add(base, shape.slots*slotSize), mtuShift: mtuShift(provider.MTU1024), size: uint32(shape.messages)}
	s.ops = &operations
	if c.caps.msn {
		s.search.kind |= searchMSN
	} else if c.caps.p5 {
		s.search.kind |= searchExtended
	}
	if q.datagrams {
		s.ops = &datagrams
		s.search.kind |= searchUD
		if !c.caps.p5 {
			s.stall, s.unstall = stallRequests, q.moveToRTS
		}
	}
	for i, f := range headFlags {
		s.heads[i] = f
		if cfg.SignalAll {
			s.heads[i] |= headSignaled
		}
	}
	if s.variable {
		s.bounce = make([]byte, shape.most*slotSize)
	}
	s.push = c.doorbells.push.take(&c.caps, q.num)
	s.reset()
	q.cap = provider.QPCap{SendWR: shape.sends, SendSGE: shape.sendSGE, Inline: shape.inline}
	if q.srq != nil {
		return
	}
	r := &q.rq
	r.buf, r.entries, r.size = unsafe.Add(base, sendSize), uint32(shape.recvs), uint32(shape.recvSize)
	r.max, r.maxSGE = uint32(shape.recvs-1), shape.recvSGE
	r.ids = unsafe.Pointer(unsafe.SliceData(make([]uint64, shape.recvs)))
	r.num, r.ring = bell(bellRQ, q.num), c.ringer()
	r.reset()
	q.cap.RecvWR, q.cap.RecvSGE = shape.recvs-1, shape.recvSGE
}

// stallRequests is the number of requests after which the send queue of a QP of type UD stalls on chips of generation
// P4. libbnxt_re and the kernel's driver call it BNXT_RE_UD_QP_HW_STALL.
const stallRequests = 1 << 22

// moveToRTS moves the QP to the state RTS, in which it is. That keeps the send queue from stalling. The caller holds the
// lock of the queue, so that Close cannot destroy the QP. An error has the stall as its only consequence.
func (q *qp) moveToRTS() {
	cmd := provider.ModifyCommand(q.handle, &provider.QPAttr{State: provider.QPRTS}, provider.QPAttrState)
	_ = q.ctx.File.ModifyQP(&cmd)
}
