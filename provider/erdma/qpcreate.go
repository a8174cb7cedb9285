// SPDX-License-Identifier: Apache-2.0

package erdma

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

// maxRequests bounds the sizes of queues, so that the numbers of blocks and receives fit in 16 bits.
const maxRequests = 1 << 15 / maxBlocks

// CreateQP makes a queue pair. RC is the only type.
func (c *Context) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	if cfg.Type != provider.RC {
		return nil, unsupported("QP type %v", cfg.Type)
	}
	if cfg.SRQ != nil {
		return nil, unsupported("shared receive queues")
	}
	q := &qp{ctx: c, failed: cfg.Failed}
	var ok1, ok2 bool
	q.sendCQ, ok1 = cfg.SendCQ.(*cq)
	q.recvCQ, ok2 = cfg.RecvCQ.(*cq)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("erdma: a CQ of another driver: %w", syscall.EINVAL)
	}
	if err := q.create(cfg); err != nil {
		return nil, errors.Join(err, q.free())
	}
	q.leak = leak.Track("erdma QP", c.File.Info().Name)
	return q, nil
}

func (q *qp) create(cfg *provider.QPConfig) (err error) {
	// The kernel has no QP without one of the queues.
	sends, recvs := max(cfg.Cap.SendWR, 1), max(cfg.Cap.RecvWR, 1)
	if sends > maxRequests || recvs > maxRequests {
		return fmt.Errorf("erdma: queues of %d requests and %d receives, at most %d: %w", sends, recvs, maxRequests, syscall.EINVAL)
	}
	blocks, slots := 1<<log2ceil(sends*maxBlocks), 1<<log2ceil(recvs)
	sendSize := pages(blocks * blockSize)
	size := sendSize + pages(slots*blockSize)
	if q.buf, err = mem.Alloc(size); err != nil {
		return fmt.Errorf("erdma: memory of the queues: %w", err)
	}
	if q.record, err = q.ctx.records.Alloc(q.ctx.pageSize, recordSize); err != nil {
		return fmt.Errorf("erdma: doorbell record: %w", err)
	}
	records := (*[2]uint64)(q.record.Mem()) // of the send queue and of the receive queue
	kcfg := uverbs.QPConfig{
		Type:       uint8(cfg.Type),
		PD:         cfg.PD.Handle(),
		SendCQ:     cfg.SendCQ.Handle(),
		RecvCQ:     cfg.RecvCQ.Handle(),
		UserHandle: cfg.UserHandle,
		Cap: abi.UverbsQPCap{
			MaxSendWR:     uint32(sends),
			MaxRecvWR:     uint32(recvs),
			MaxSendSGE:    uint32(cfg.Cap.SendSGE),
			MaxRecvSGE:    uint32(cfg.Cap.RecvSGE),
			MaxInlineData: uint32(cfg.Cap.Inline),
		},
	}
	if cfg.SignalAll {
		kcfg.Flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	cmd := abi.ErdmaUreqCreateQP{DBRecordVA: abi.NewPointer(records), QbufVA: abi.NewSlicePointer(q.buf.Bytes()), QbufLen: uint32(size)}
	var resp abi.ErdmaUrespCreateQP
	k, err := q.ctx.File.CreateQP(kcfg, uverbs.Driver{In: abi.Bytes(&cmd), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	q.handle, q.num = k.Handle, k.Num
	if k.Num == 0 || resp.QPID != k.Num || uint64(resp.NumSQE) != uint64(blocks) || uint64(resp.NumRQE) != uint64(slots) || uint64(resp.RQOffset) != uint64(sendSize) || !q.ctx.qps.add(q) {
		q.num = 0
		return errors.Join(unsupported("the kernel made QP %#x (%#x) of %d blocks and %d receives at %d", k.Num, resp.QPID, resp.NumSQE, resp.NumRQE, resp.RQOffset),
			q.ctx.File.DestroyQP(k.Handle))
	}
	q.open(cfg.SignalAll, blocks, slots, sendSize, records)
	return nil
}

// open lays the queues out.
func (q *qp) open(signalAll bool, blocks, slots, sendSize int, records *[2]uint64) {
	base := unsafe.Pointer(unsafe.SliceData(q.buf.Bytes()))
	num := uint64(q.num) << headQP
	s := &q.sq
	s.buf, s.mask, s.maxPost = base, uint32(blocks-1), uint32(blocks/maxBlocks)
	s.pending = unsafe.SliceData(make([]pendingWR, blocks))
	s.num, s.record, s.bell, s.file, s.atomics = num, &records[0], q.ctx.doorbells.sendOf(q.num), q.ctx.File, q.ctx.atomics
	for i, f := range headFlags {
		s.heads[i] = num | f
		if signalAll {
			s.heads[i] |= headSignaled
		}
	}
	s.reset()
	r := &q.rq
	r.buf, r.mask, r.max = unsafe.Add(base, sendSize), uint32(slots-1), uint32(slots)
	r.ids = unsafe.Pointer(unsafe.SliceData(make([]uint64, slots)))
	r.num, r.record, r.bell = num, &records[1], q.ctx.doorbells.recvOf(q.num)
	r.reset()
	q.cap = provider.QPCap{SendWR: int(s.maxPost), RecvWR: slots, SendSGE: maxSendSGE, RecvSGE: maxRecvSGE, Inline: maxInline}
}
