// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/mem"
	"purerdma/internal/ring"
	"purerdma/uverbs"
)

// Layout of the queues and doorbells of erdma (drivers/infiniband/hw/erdma/erdma_hw.h of Linux).
const (
	erdmaBlock     = 32   // bytes of a block of a send queue, of a receive and of a completion
	erdmaMaxBlocks = 4    // of a request
	erdmaMaxSGE    = 6    // of a request. A receive has one
	erdmaPage      = 4096 // bytes of a page of doorbells

	erdmaRecvQueue = 1 // of a completion. A send queue is 0

	erdmaArm       = 1 << 31 // bits of the doorbell of a CQ
	erdmaSolicited = 1 << 30
	erdmaCQIndex   = 1<<24 - 1
)

// Operations of erdma (enum erdma_opcode).
const (
	erdmaWrite       = 0
	erdmaRead        = 1
	erdmaSend        = 2
	erdmaSendImm     = 3
	erdmaReceive     = 4
	erdmaRecvImm     = 5 // of a WRITE
	erdmaRecvInv     = 6
	erdmaWriteImm    = 9
	erdmaRecvSendImm = 12
	erdmaSendInv     = 13
	erdmaReadInv     = 16
	erdmaCompareSwap = 17
	erdmaFetchAdd    = 18
)

// erdmaOpcodes holds the operations of work requests.
var erdmaOpcodes = map[uint8]uint32{
	erdmaWrite:       abi.IB_UVERBS_WR_RDMA_WRITE,
	erdmaRead:        abi.IB_UVERBS_WR_RDMA_READ,
	erdmaReadInv:     abi.IB_UVERBS_WR_RDMA_READ,
	erdmaSend:        abi.IB_UVERBS_WR_SEND,
	erdmaSendImm:     abi.IB_UVERBS_WR_SEND_WITH_IMM,
	erdmaSendInv:     abi.IB_UVERBS_WR_SEND_WITH_INV,
	erdmaWriteImm:    abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
	erdmaCompareSwap: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP,
	erdmaFetchAdd:    abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD,
}

// beERDMA makes a context one of erdma.
func (c *context) beERDMA() {
	c.beIWARP()
	a := &c.Attr.Base
	a.MaxSGE, a.MaxSGERd, a.MaxSRQ, a.AtomicCap = 1, 1, 0, 1
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, c.erdmaContext)
	c.Handle(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, func(*uverbs.Request) error { return syscall.EOPNOTSUPP })
}

// erdmaContext answers GET_CONTEXT with three pages of doorbells. Nothing reads the pages, because each doorbell
// also has a record in the program's memory.
func (c *context) erdmaContext(req *uverbs.Request) error {
	var resp abi.ErdmaUrespAllocCtx
	for _, offset := range []*uint64{&resp.SDB, &resp.RDB, &resp.CDB} {
		page, err := mem.Alloc(erdmaPage)
		if err != nil {
			return err
		}
		*offset = c.Offer(page)
	}
	fakeuverbs.PutDriver(req, &resp)
	return c.GetContext(req)
}

// guarded runs f, which accesses memory of the program, and reports whether the memory was mapped. Linux pins the memory
// of queues, so that a program may unmap it. Programs that a lying kernel has confused do that.
func guarded(f func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
		}
	}()
	f()
	return true
}

// record is a doorbell record, to which the program stores the value of its last doorbell.
type record struct {
	mem  []byte // nil if the program has unmapped it
	last uint64
}

func (r *record) load() uint64 {
	if r.mem != nil && !guarded(func() {
		v := atomic.LoadUint64(abi.View[uint64](r.mem))
		r.last = binary.LittleEndian.Uint64(binary.NativeEndian.AppendUint64(nil, v))
	}) {
		r.mem = nil
	}
	return r.last
}

// blocks is a queue in the program's memory.
type blocks struct {
	mem    []byte
	record record
	at     uint16 // the first block that the kernel has not taken
}

func (b *blocks) block(i uint16) []byte {
	return b.mem[int(i)*erdmaBlock&(len(b.mem)-1):][:erdmaBlock]
}

// posted returns the number of the block behind the posted ones.
func (b *blocks) posted() uint16 { return uint16(b.record.load()) }

// erdmaQueues are the queues of a QP of erdma. The engine executes requests of rxe. So each queue has a
// queue of rxe behind it, in which the IDs of requests are the numbers that completions have.
type erdmaQueues struct{ sends, recvs blocks }

// createERDMA takes the queues of a QP of erdma.
func (q *qp) createERDMA(in []byte) (resp abi.ErdmaUrespCreateQP, err error) {
	if len(in) < abi.Size[abi.ErdmaUreqCreateQP]() || q.cap.MaxSendWR == 0 || q.cap.MaxRecvWR == 0 || q.srq != nil ||
		q.cap.MaxSendSGE > erdmaMaxSGE || q.cap.MaxRecvSGE > 1 || q.cap.MaxInlineData > erdmaMaxSGE*16 {
		return resp, syscall.EINVAL
	}
	cmd := abi.View[abi.ErdmaUreqCreateQP](in)
	resp.NumSQE, resp.NumRQE = 1<<bits.Len32(q.cap.MaxSendWR*erdmaMaxBlocks-1), 1<<bits.Len32(q.cap.MaxRecvWR-1)
	resp.RQOffset = (resp.NumSQE*erdmaBlock + erdmaPage - 1) &^ (erdmaPage - 1)
	if cmd.QbufLen < resp.RQOffset+resp.NumRQE*erdmaBlock {
		return resp, syscall.EINVAL
	}
	buf, records := cmd.QbufVA.Slice(int(cmd.QbufLen)), cmd.DBRecordVA.Slice(16)
	q.erdma = &erdmaQueues{
		sends: blocks{mem: buf[:resp.NumSQE*erdmaBlock], record: record{mem: records[:8]}},
		recvs: blocks{mem: buf[resp.RQOffset:][:resp.NumRQE*erdmaBlock], record: record{mem: records[8:]}},
	}
	q.cap.MaxSendSGE, q.cap.MaxRecvSGE, q.cap.MaxInlineData = erdmaMaxSGE, 1, erdmaMaxSGE*16
	if q.sq, _, err = q.c.newQueue(int(resp.NumSQE), abi.Size[abi.RxeSendWQE]()+erdmaMaxSGE*16); err == nil {
		q.rq, _, err = q.c.newQueue(int(resp.NumRQE), abi.Size[abi.RxeRecvWQE]()+16)
	}
	return resp, err
}

// pullERDMASends moves the posted sends of a QP of erdma to the engine's queue. A request with an impossible
// size ends the queue, and so does unmapped memory.
func (q *qp) pullERDMASends() {
	for s := &q.erdma.sends; s.at != s.posted() && !q.sq.full(); {
		var sqe [erdmaMaxBlocks * erdmaBlock]byte
		guarded(func() {
			for i := range uint16(erdmaMaxBlocks) {
				copy(sqe[i*erdmaBlock:], s.block(s.at+i))
			}
		})
		n := uint16(binary.LittleEndian.Uint64(sqe[:])>>52&7) + 1
		to := q.sq.ring.LoadProducer()
		wqe := ring.At[abi.RxeSendWQE](&q.sq.ring, to)
		*wqe = abi.RxeSendWQE{}
		if n > erdmaMaxBlocks || n > s.posted()-s.at || binary.LittleEndian.Uint16(sqe[:]) != s.at+n {
			wqe.WR.Opcode, n = noOpcode, s.posted()-s.at
		} else {
			q.convert(wqe, to, &sqe)
		}
		wqe.WR.WRID = uint64(s.at)
		wqe.DMA.Resid = wqe.DMA.Length
		s.at += n
		q.sq.ring.StoreProducer(q.sq.ring.Next(to))
	}
}

// convert makes a request of erdma one of rxe, which has a slot of the engine's queue.
func (q *qp) convert(wqe *abi.RxeSendWQE, slot uint32, sqe *[erdmaMaxBlocks * erdmaBlock]byte) {
	le := binary.LittleEndian
	head := le.Uint64(sqe[:])
	op, ok := erdmaOpcodes[uint8(head>>27&31)]
	if !ok {
		op = noOpcode
	}
	wqe.WR.Opcode = op
	copy(wqe.WR.Ex[:], sqe[8:12])
	if head>>22&1 != 0 {
		wqe.WR.SendFlags |= flagSignaled
	}
	if head>>23&1 != 0 {
		wqe.WR.SendFlags |= flagSolicited
	}
	n, at := int(head>>56), 16 // number and place of the elements
	key, addr := le.Uint32(sqe[16:]), uint64(le.Uint32(sqe[20:]))|uint64(le.Uint32(sqe[24:]))<<32
	element := func(at int) abi.SiwSGE {
		return abi.SiwSGE{LAddr: le.Uint64(sqe[at:]), Length: le.Uint32(sqe[at+8:]), LKey: le.Uint32(sqe[at+12:])}
	}
	var local []abi.SiwSGE
	switch op {
	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		wqe.IOVA, wqe.WR.RDMA().RKey, at = addr, key, erdmaBlock
	case abi.IB_UVERBS_WR_RDMA_READ:
		from := element(erdmaBlock)
		wqe.IOVA, wqe.WR.RDMA().RKey = from.LAddr, from.LKey
		local = []abi.SiwSGE{{LAddr: addr, Length: le.Uint32(sqe[12:]), LKey: key}}
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		from, a := element(erdmaBlock), wqe.WR.Atomic()
		wqe.IOVA, a.RKey, a.CompareAdd = from.LAddr, from.LKey, le.Uint64(sqe[16:])
		if op == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP {
			a.CompareAdd, a.Swap = le.Uint64(sqe[24:]), le.Uint64(sqe[16:])
		}
		local = []abi.SiwSGE{element(erdmaBlock + 16)}
	}
	switch head := abi.Size[abi.RxeSendWQE](); {
	case local != nil:
		wqe.DMA.NumSGE, wqe.DMA.Length = q.sq.putElements(slot, head, local)
	case le.Uint64(sqe[:])>>25&1 != 0:
		wqe.WR.SendFlags |= flagInline
		n = min(n, erdmaMaxSGE*16, len(sqe)-at)
		copy(ring.Tail[byte](&q.sq.ring, slot, head, n), sqe[at:])
		wqe.DMA.Length = uint32(n)
	default:
		for range min(n, erdmaMaxSGE) {
			local = append(local, element(at))
			at += 16
		}
		wqe.DMA.NumSGE, wqe.DMA.Length = q.sq.putElements(slot, head, local)
	}
}

// pullERDMARecvs moves the posted receives of a QP of erdma to the engine's queue.
func (q *qp) pullERDMARecvs() {
	le := binary.LittleEndian
	for r := &q.erdma.recvs; r.at != r.posted() && !q.rq.full(); r.at++ {
		var rqe [erdmaBlock]byte
		guarded(func() { copy(rqe[:], r.block(r.at)) })
		to := q.rq.ring.LoadProducer()
		wqe := ring.At[abi.RxeRecvWQE](&q.rq.ring, to)
		*wqe = abi.RxeRecvWQE{WRID: uint64(r.at)}
		if sge := (abi.SiwSGE{LAddr: le.Uint64(rqe[16:]), Length: le.Uint32(rqe[24:]), LKey: le.Uint32(rqe[28:])}); sge.Length > 0 {
			wqe.DMA.NumSGE, wqe.DMA.Length = q.rq.putElements(to, abi.Size[abi.RxeRecvWQE](), []abi.SiwSGE{sge})
		}
		wqe.DMA.Resid = wqe.DMA.Length
		q.rq.ring.StoreProducer(q.rq.ring.Next(to))
	}
}

// erdmaCQ is the kernel's side of a CQ in the program's memory.
type erdmaCQ struct {
	ring      []byte
	record    record
	rung      uint64 // the last doorbell
	next      uint32 // counts the completions
	solicited uint32 // next after the last solicited completion
}

// createERDMA takes the ring of a CQ of erdma.
func (q *cq) createERDMA(entries uint32, in []byte) (resp abi.ErdmaUrespCreateCQ, err error) {
	if len(in) < abi.Size[abi.ErdmaUreqCreateCQ]() {
		return resp, syscall.EINVAL
	}
	cmd := abi.View[abi.ErdmaUreqCreateCQ](in)
	resp.NumCQE = 1 << bits.Len32(entries-1)
	if cmd.QbufLen < resp.NumCQE*erdmaBlock {
		return resp, syscall.EINVAL
	}
	q.c.k.lastCQN++
	resp.CQID = q.c.k.lastCQN
	q.erdma = &erdmaCQ{ring: cmd.QbufVA.Slice(int(resp.NumCQE) * erdmaBlock), record: record{mem: cmd.DBRecordVA.Slice(8)}}
	q.c.k.serve()
	return resp, nil
}

// erdmaOpcode returns erdma's operation of a completion.
func erdmaOpcode(wc *abi.UverbsWC) uint8 {
	switch wc.Opcode {
	case abi.IB_UVERBS_WC_RDMA_WRITE:
		return erdmaWrite
	case abi.IB_UVERBS_WC_RDMA_READ:
		return erdmaRead
	case abi.IB_UVERBS_WC_COMP_SWAP:
		return erdmaCompareSwap
	case abi.IB_UVERBS_WC_FETCH_ADD:
		return erdmaFetchAdd
	case wcRecvWriteImm:
		return erdmaRecvImm
	case wcRecv:
		switch {
		case wc.WCFlags&wcWithImm != 0:
			return erdmaRecvSendImm
		case wc.WCFlags&wcWithInv != 0:
			return erdmaRecvInv
		}
		return erdmaReceive
	}
	return erdmaSend
}

// erdmaStatus returns erdma's status of a completion (enum erdma_wc_status).
func erdmaStatus(wc *abi.UverbsWC) uint8 {
	received := wc.Opcode&wcRecv != 0
	switch wc.Status {
	case success:
		return 0
	case flushErr:
		return 15
	case retryExcErr:
		return 16
	case locQPOpErr:
		return 8
	case locLenErr, locProtErr:
		if received {
			return 4 // address of a receive
		}
		return 10 // key of a request
	}
	return 1 // general error
}

// pushERDMA is push for a CQ of erdma. As on an adapter, a full ring is overwritten.
func (q *cq) pushERDMA(wc *abi.UverbsWC, solicited bool) {
	e, be := q.erdma, binary.BigEndian
	head := uint32(erdmaOpcode(wc))<<16 | uint32(erdmaStatus(wc))
	if wc.Opcode&wcRecv != 0 {
		head |= erdmaRecvQueue << 8
	}
	n := uint32(len(e.ring) / erdmaBlock)
	if e.next&n == 0 {
		head |= 1 << 31 // the owner bit of odd passes
	}
	guarded(func() {
		cqe := e.ring[e.next%n*erdmaBlock:][:erdmaBlock]
		be.PutUint32(cqe[4:], uint32(wc.WRID))
		be.PutUint32(cqe[8:], wc.QPNum)
		if wc.WCFlags&wcWithImm != 0 {
			binary.LittleEndian.PutUint32(cqe[12:], be.Uint32(wc.Ex[:]))
		} else {
			be.PutUint32(cqe[12:], binary.NativeEndian.Uint32(wc.Ex[:]))
		}
		be.PutUint32(cqe[16:], wc.ByteLen)
		atomic.StoreUint32(abi.View[uint32](cqe), binary.NativeEndian.Uint32(be.AppendUint32(nil, head)))
	})
	e.next++
	if solicited || wc.Status != success {
		e.solicited = e.next
	}
	q.completeERDMA(e.next - 1)
}

// completeERDMA sends an event if the CQ is armed and has completions after the first n.
func (q *cq) completeERDMA(n uint32) {
	last := q.erdma.next
	if q.armed == armedSolicited {
		last = q.erdma.solicited
	}
	if q.armed != notArmed && int32(last-n) > 0 {
		q.armed = notArmed
		q.channel.Complete(&q.event)
	}
}

// ringERDMA handles a new doorbell of the CQ, and reports whether there was one.
func (q *cq) ringERDMA() bool {
	e := q.erdma
	v := e.record.load()
	if v == e.rung {
		return false
	}
	if e.rung = v; v&erdmaArm != 0 {
		q.arm(v&erdmaSolicited != 0)
		polled := e.next - (e.next-uint32(v))&erdmaCQIndex
		q.completeERDMA(polled)
	}
	return true
}

// ringERDMA executes the requests after a new doorbell of the QP, and reports whether there was one. The adapter
// ignores the doorbells of a QP that is not connected.
func (q *qp) ringERDMA() bool {
	if q.state != stateRTS || q.retrying || q.erdma.sends.at == q.erdma.sends.posted() {
		return false
	}
	q.doorbell()
	return true
}

// serve starts a goroutine that serves the doorbells of erdma while there are CQs. The caller holds the lock.
func (k *Kernel) serve() {
	if k.serving {
		return
	}
	k.serving = true
	go func() {
		const (
			spins = 100  // tens of microseconds
			naps  = 2000 // hundreds of milliseconds
		)
		for idle := 0; ; idle++ {
			rang, more := k.serveOnce()
			switch {
			case !more:
				return
			case rang:
				idle = 0
			case idle < spins:
				runtime.Gosched()
			case idle < naps:
				time.Sleep(20 * time.Microsecond)
			default:
				time.Sleep(time.Millisecond)
			}
		}
	}()
}

// serveOnce handles the new doorbells of all devices. It reports whether there were any, and whether there
// are still CQs.
func (k *Kernel) serveOnce() (rang, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		for _, q := range c.cqs {
			rang, more = q.ringERDMA() || rang, true
		}
		for _, q := range c.qps {
			rang = q.ringERDMA() || rang
		}
	}
	k.serving = more
	return rang, more
}

// WrongCompletion writes the completion of a request that was not posted, or of a receive that is not the next one,
// as a faulty adapter does. It reports whether there is such a QP of erdma. A wrong completion of rxe or siw would
// differ only in its ID.
func (k *Kernel) WrongCompletion(num uint32, receive bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	q := k.qps[num]
	if q == nil || q.erdma == nil {
		return false
	}
	if !receive {
		q.send.push(&abi.UverbsWC{WRID: uint64(q.erdma.sends.posted()), QPNum: num}, false)
		return true
	}
	// Receives complete in order, so that the one after the next is wrong.
	q.pullRecvs()
	next := uint64(q.erdma.recvs.at)
	if !q.rq.empty() {
		next = ring.At[abi.RxeRecvWQE](&q.rq.ring, q.rq.own).WRID
	}
	q.recv.push(&abi.UverbsWC{WRID: next + 1, Opcode: wcRecv, QPNum: num}, false)
	return true
}
