// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/mem"
	"purerdma/internal/ring"
	"purerdma/uverbs"
)

// maxSIWSGE is the maximum number of elements in a work request of siw, and siwRoom their size in bytes.
// Inline data is in their place.
const (
	maxSIWSGE = abi.SIW_MAX_SGE
	siwRoom   = maxSIWSGE * 16
)

// beSIW makes a context one of siw.
func (c *context) beSIW() {
	c.beIWARP()
	a := &c.Attr.Base
	a.MaxSGE, a.MaxSGERd, a.MaxSRQSGE = maxSIWSGE, 1, maxSIWSGE
}

// beIWARP makes a context one of an iWARP device.
func (c *context) beIWARP() {
	c.Attr.Base.MaxAH = 0
	c.Port.GIDTblLen, c.Port.Flags = 1, 0
	c.GIDs = []abi.UverbsGIDEntry{{PortNum: 1, GID: [16]byte{2, 5: byte(c.Info.Index)}}}
	for _, code := range []uint32{abi.IB_USER_VERBS_CMD_RESIZE_CQ, abi.IB_USER_VERBS_CMD_CREATE_AH, abi.IB_USER_VERBS_CMD_REREG_MR,
		abi.IB_USER_VERBS_CMD_ALLOC_MW, abi.IB_USER_VERBS_CMD_OPEN_XRCD} {
		c.Command(code, func(*fakeuverbs.Command) error { return syscall.EOPNOTSUPP })
	}
}

// slots is the kernel's side of an array of siw. The kernel counts in at.
type slots struct {
	ring.Slots
	mem *mem.Region
	at  uint32
}

// newSlots allocates an array of at least n slots with more bytes after it. It returns the array with
// its mmap offset.
func (c *context) newSlots(n, size, more int) (*slots, uint64, error) {
	n = 1 << bits.Len(uint(n-1))
	m, err := mem.Alloc(n*size + more)
	if err != nil {
		return nil, 0, err
	}
	s, err := ring.NewSlots(m.Bytes(), uint32(n), size, 8)
	if err != nil {
		m.Free()
		return nil, 0, err
	}
	return &slots{Slots: s, mem: m}, c.Offer(m), nil
}

// valid reports whether the next slot has a request of the program, or a completion that it has not
// taken. VALID is in the first byte of the word of both.
func (s *slots) valid() bool {
	word := s.LoadWord(s.at)
	return abi.Bytes(&word)[0]&abi.SIW_WQE_VALID != 0
}

// free passes the next slot to the program, and advances.
func (s *slots) free() {
	s.StoreWord(s.at, 0)
	s.at++
}

// The engine executes requests of rxe. So a queue of siw has a queue of rxe behind it, which no program
// maps. As in Linux, the kernel frees a slot of siw before it has executed the request.

// siwOpcodes holds the operations of work requests.
var siwOpcodes = map[uint8]uint32{
	abi.SIW_OP_SEND:            abi.IB_UVERBS_WR_SEND,
	abi.SIW_OP_SEND_REMOTE_INV: abi.IB_UVERBS_WR_SEND_WITH_INV,
	abi.SIW_OP_WRITE:           abi.IB_UVERBS_WR_RDMA_WRITE,
	abi.SIW_OP_READ:            abi.IB_UVERBS_WR_RDMA_READ,
	abi.SIW_OP_READ_LOCAL_INV:  abi.IB_UVERBS_WR_RDMA_READ,
}

// noOpcode is an operation that the engine does not know.
const noOpcode = ^uint32(0)

// pullSends moves the posted sends of a QP of siw or erdma to the engine's queue.
func (q *qp) pullSends() {
	if q.erdma != nil {
		q.pullERDMASends()
		return
	}
	for q.sends != nil && !q.sq.full() && q.sends.valid() {
		at := q.sq.ring.LoadProducer()
		sqe, wqe := ring.InSlot[abi.SiwSQE](&q.sends.Slots, q.sends.at), ring.At[abi.RxeSendWQE](&q.sq.ring, at)
		*wqe = abi.RxeSendWQE{IOVA: sqe.RAddr}
		op, ok := siwOpcodes[sqe.Opcode]
		if !ok {
			op = noOpcode
		}
		wqe.WR.WRID, wqe.WR.Opcode = sqe.ID, op
		wqe.WR.RDMA().RemoteAddr, wqe.WR.RDMA().RKey = sqe.RAddr, sqe.RKey
		copy(wqe.WR.Ex[:], abi.Bytes(&sqe.RKey))
		if sqe.Flags&abi.SIW_WQE_SIGNALLED != 0 {
			wqe.WR.SendFlags |= flagSignaled
		}
		if sqe.Flags&abi.SIW_WQE_SOLICITED != 0 {
			wqe.WR.SendFlags |= flagSolicited
		}
		if sqe.Flags&abi.SIW_WQE_INLINE != 0 {
			// The length is in the first element, and the data begins with the second one.
			wqe.WR.SendFlags |= flagInline
			n := min(sqe.SGE[0].Length, abi.SIW_MAX_INLINE)
			copy(ring.Tail[byte](&q.sq.ring, at, abi.Size[abi.RxeSendWQE](), int(n)), abi.Bytes(&sqe.SGE)[abi.Size[abi.SiwSGE]():])
			wqe.DMA.Length = n
		} else {
			wqe.DMA.NumSGE, wqe.DMA.Length = q.sq.putElements(at, abi.Size[abi.RxeSendWQE](), sqe.SGE[:min(sqe.NumSGE, maxSIWSGE)])
		}
		wqe.DMA.Resid = wqe.DMA.Length
		q.sq.ring.StoreProducer(q.sq.ring.Next(at))
		q.sends.free()
	}
}

// pullRecvs moves the posted receives of a QP of siw or erdma to the engine's queue.
func (q *qp) pullRecvs() {
	if q.erdma != nil {
		q.pullERDMARecvs()
	} else {
		pullRecvs(q.recvs, q.rq)
	}
}

// pullRecvs moves the posted receives of an array of siw to the engine's queue.
func pullRecvs(from *slots, to *queue) {
	for from != nil && !to.full() && from.valid() {
		at := to.ring.LoadProducer()
		rqe, wqe := ring.InSlot[abi.SiwRQE](&from.Slots, from.at), ring.At[abi.RxeRecvWQE](&to.ring, at)
		*wqe = abi.RxeRecvWQE{WRID: rqe.ID}
		wqe.DMA.NumSGE, wqe.DMA.Length = to.putElements(at, abi.Size[abi.RxeRecvWQE](), rqe.SGE[:min(rqe.NumSGE, maxSIWSGE)])
		wqe.DMA.Resid = wqe.DMA.Length
		to.ring.StoreProducer(to.ring.Next(at))
		from.free()
	}
}

// putElements stores the elements of a request behind its head. It returns their number and length.
func (q *queue) putElements(at uint32, head int, from []abi.SiwSGE) (n, length uint32) {
	to := ring.Tail[abi.RxeSGE](&q.ring, at, head, len(from))
	for i, e := range from {
		to[i] = abi.RxeSGE{Addr: e.LAddr, Length: e.Length, LKey: e.LKey}
		length += e.Length
	}
	return uint32(len(from)), length
}

// createSIW creates the queues of a QP of siw.
func (q *qp) createSIW() (resp abi.SiwUrespCreateQP, err error) {
	if q.cap.MaxSendWR == 0 || max(q.cap.MaxSendSGE, q.cap.MaxRecvSGE) > maxSIWSGE {
		return resp, syscall.EINVAL
	}
	q.cap.MaxInlineData = abi.SIW_MAX_INLINE
	if q.sends, resp.SQKey, err = q.c.newSlots(int(q.cap.MaxSendWR), abi.Size[abi.SiwSQE](), 0); err != nil {
		return resp, err
	}
	resp.NumSQE = uint32(q.sends.Len())
	if q.sq, _, err = q.c.newQueue(q.sends.Len(), abi.Size[abi.RxeSendWQE]()+siwRoom); err != nil || q.srq != nil {
		return resp, err
	}
	if q.rq, _, err = q.c.newQueue(int(q.cap.MaxRecvWR), abi.Size[abi.RxeRecvWQE]()+siwRoom); err != nil || q.cap.MaxRecvWR == 0 {
		return resp, err
	}
	if q.recvs, resp.RQKey, err = q.c.newSlots(int(q.cap.MaxRecvWR), abi.Size[abi.SiwRQE](), 0); err == nil {
		resp.NumRQE = uint32(q.recvs.Len())
	}
	return resp, err
}

// createSIW creates the array of a CQ of siw.
func (q *cq) createSIW(entries int) (resp abi.SiwUrespCreateCQ, err error) {
	size := abi.Size[abi.SiwCQE]()
	if q.slots, resp.CQKey, err = q.c.newSlots(entries, size, abi.Size[abi.SiwCQCtrl]()); err != nil {
		return resp, err
	}
	resp.NumCQE = uint32(q.slots.Len())
	q.control, err = ring.Word(q.slots.mem.Bytes(), q.slots.Len()*size)
	return resp, err
}

// createSIW creates the queues of an SRQ of siw.
func (s *srq) createSIW() (resp abi.SiwUrespCreateSRQ, err error) {
	if s.maxSGE > maxSIWSGE {
		return resp, syscall.EINVAL
	}
	if s.slots, resp.SRQKey, err = s.c.newSlots(int(s.maxWR), abi.Size[abi.SiwRQE](), 0); err != nil {
		return resp, err
	}
	resp.NumRQE = uint32(s.slots.Len())
	s.q, _, err = s.c.newQueue(s.slots.Len(), abi.Size[abi.RxeRecvWQE]()+siwRoom)
	return resp, err
}

// siwStatus returns siw's status of a completion. siw has no status for a peer that does not answer or has no receive.
func siwStatus(status uint32) uint16 {
	switch status {
	case success:
		return abi.SIW_WC_SUCCESS
	case locLenErr:
		return abi.SIW_WC_LOC_LEN_ERR
	case locQPOpErr:
		return abi.SIW_WC_LOC_QP_OP_ERR
	case locProtErr:
		return abi.SIW_WC_LOC_PROT_ERR
	case flushErr:
		return abi.SIW_WC_WR_FLUSH_ERR
	case remInvReqErr:
		return abi.SIW_WC_REM_INV_REQ_ERR
	case remAccessErr:
		return abi.SIW_WC_REM_ACCESS_ERR
	}
	return abi.SIW_WC_GENERAL_ERR
}

// siwOpcode returns siw's operation of a completion.
func siwOpcode(opcode uint32) uint8 {
	switch opcode {
	case abi.IB_UVERBS_WC_RDMA_WRITE:
		return abi.SIW_OP_WRITE
	case abi.IB_UVERBS_WC_RDMA_READ:
		return abi.SIW_OP_READ
	case wcRecv:
		return abi.SIW_OP_RECEIVE
	}
	return abi.SIW_OP_SEND
}

// pushSIW is push for a CQ of siw.
func (q *cq) pushSIW(wc *abi.UverbsWC, solicited bool) {
	if q.slots.valid() {
		q.c.Event(uverbs.EventCQErr, q.event.CQHandle)
		return
	}
	cqe := ring.InSlot[abi.SiwCQE](&q.slots.Slots, q.slots.at)
	cqe.ID, cqe.Bytes, cqe.QPID = wc.WRID, wc.ByteLen, uint64(wc.QPNum)
	filled := abi.SiwCQE{Flags: abi.SIW_WQE_VALID, Opcode: siwOpcode(wc.Opcode), Status: siwStatus(wc.Status)}
	q.slots.StoreWord(q.slots.at, *abi.View[uint32](abi.Bytes(&filled)[8:]))
	q.slots.at++
	if armed := q.control.Load(); armed&abi.SIW_NOTIFY_NEXT_COMPLETION != 0 || armed&abi.SIW_NOTIFY_SOLICITED != 0 && solicited {
		q.control.Store(abi.SIW_NOTIFY_NOT)
		q.channel.Complete(&q.event)
	}
}

// ConnectQP moves a QP of an iWARP device to RTS, connected to the QP of a peer. The QP may have so many
// incoming and outgoing READs at a time. The connection manager of iWARP does this.
func (k *Kernel) ConnectQP(num, peer uint32, incoming, outgoing uint8) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.qps[num]; q != nil && q.state < stateRTS {
		q.attr.DestQPNum, q.state = peer, stateRTS
		q.attr.MaxRdAtomic, q.attr.MaxDestRdAtomic = incoming, outgoing // siw swaps them
	}
}
