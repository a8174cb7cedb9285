// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"encoding/binary"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/ring"
)

// Statuses of completions: enum ib_wc_status.
const (
	success        = 0
	locLenErr      = 1
	locQPOpErr     = 2
	locProtErr     = 4
	flushErr       = 5
	remInvReqErr   = 9
	remAccessErr   = 10
	retryExcErr    = 12
	rnrRetryExcErr = 13
)

// Flags of requests and completions: enum ib_send_flags, enum ib_wc_flags and
// enum ib_wc_opcode of the kernel.
const (
	flagSignaled  = 1 << 1
	flagSolicited = 1 << 2
	flagInline    = 1 << 3

	wcGRH     = 1 << 0
	wcWithImm = 1 << 1
	wcWithInv = 1 << 2

	wcRecv         = 128
	wcRecvWriteImm = 129
)

// again is not a status of a completion. It means that the peer is not ready and that the
// request is to be retried later.
const again = ^uint32(0)

// doorbell executes the posted requests.
func (q *qp) doorbell() error {
	switch {
	case q.sends != nil && q.state != stateRTS:
		return syscall.ENOTCONN // siw_post_send
	case q.state < stateRTS:
		return syscall.EINVAL
	case q.state == stateErr:
		q.flush()
		return nil
	case q.state != stateRTS:
		return nil
	}
	for q.pullSends(); !q.sq.empty(); q.pullSends() {
		wqe := ring.At[abi.RxeSendWQE](&q.sq.ring, q.sq.own)
		status, wc := q.execute(wqe)
		if status == again {
			q.retry()
			return nil
		}
		wc.WRID, wc.Status, wc.QPNum = wqe.WR.WRID, status, q.num
		signaled := q.sigAll || wqe.WR.SendFlags&flagSignaled != 0
		q.sq.pop()
		if status != success {
			q.send.push(&wc, false)
			q.toError()
			if peer := q.c.k.qps[q.attr.DestQPNum]; status == remAccessErr && peer != nil {
				peer.toError() // as in do_class_ac_error of rxe
			}
			return nil
		}
		if signaled {
			q.send.push(&wc, false)
		}
	}
	return nil
}

// retry rings the doorbell again after a delay.
func (q *qp) retry() {
	if q.retrying {
		return
	}
	q.retrying = true
	time.AfterFunc(time.Millisecond, func() {
		q.c.k.mu.Lock()
		defer q.c.k.mu.Unlock()
		q.retrying = false
		if q.c.k.qps[q.num] == q {
			q.doorbell()
		}
	})
}

// execute executes one request and returns its status and its completion.
func (q *qp) execute(wqe *abi.RxeSendWQE) (uint32, abi.UverbsWC) {
	var wc abi.UverbsWC
	if int(wqe.DMA.NumSGE) > int(q.cap.MaxSendSGE) || wqe.State != 0 || wqe.Status != 0 || wqe.DMA.Resid != wqe.DMA.Length {
		return locQPOpErr, wc
	}
	peer := q.c.k.qps[q.attr.DestQPNum]
	if peer == nil || peer.state == stateErr || !q.c.k.connected(q.c.Info.Name, peer.c.Info.Name) {
		return retryExcErr, wc
	}
	if peer.state < stateRTR {
		return again, wc
	}
	op := wqe.WR.Opcode
	reads := op == abi.IB_UVERBS_WR_RDMA_READ || op == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP || op == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
	local, ok := q.sendMemory(wqe, reads)
	if !ok {
		return locProtErr, wc
	}
	length := int(wqe.DMA.Length)
	remote := func(access uint32) []byte {
		key := wqe.WR.RDMA().RKey
		if op == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP || op == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD {
			key = wqe.WR.Atomic().RKey
		}
		return peer.c.Remote(peer.pd, peer.num, key, wqe.IOVA, length, access)
	}
	in := abi.UverbsWC{Opcode: wcRecv, ByteLen: wqe.DMA.Length, QPNum: peer.num, WCFlags: wcGRH}
	switch op {
	case abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		in.WCFlags |= wcWithImm
		in.Ex = wqe.WR.Ex
	case abi.IB_UVERBS_WR_SEND_WITH_INV:
		in.WCFlags |= wcWithInv
		in.Ex = wqe.WR.Ex
	}
	solicited := wqe.WR.SendFlags&flagSolicited != 0
	switch op {
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_SEND_WITH_INV:
		wc.Opcode = abi.IB_UVERBS_WC_SEND
		return peer.receive(&in, local, solicited, q.attr.RNRRetry), wc

	case abi.IB_UVERBS_WR_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		wc.Opcode = abi.IB_UVERBS_WC_RDMA_WRITE
		dst := remote(abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
		if dst == nil && length > 0 {
			return remAccessErr, wc
		}
		for _, piece := range local {
			dst = dst[copy(dst, piece):]
		}
		if op == abi.IB_UVERBS_WR_RDMA_WRITE {
			return success, wc
		}
		in.Opcode = wcRecvWriteImm
		return peer.receive(&in, nil, solicited, q.attr.RNRRetry), wc

	case abi.IB_UVERBS_WR_RDMA_READ:
		wc.Opcode, wc.ByteLen = abi.IB_UVERBS_WC_RDMA_READ, wqe.DMA.Length
		src := remote(abi.IB_UVERBS_ACCESS_REMOTE_READ)
		if src == nil && length > 0 {
			return remAccessErr, wc
		}
		for _, piece := range local {
			src = src[copy(piece, src):]
		}
		return success, wc

	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		word := remote(abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
		if word == nil || length != 8 || len(local) != 1 || wqe.IOVA%8 != 0 {
			return remAccessErr, wc
		}
		a := wqe.WR.Atomic()
		old := binary.NativeEndian.Uint64(word)
		binary.NativeEndian.PutUint64(local[0], old)
		wc.Opcode, wc.ByteLen = abi.IB_UVERBS_WC_FETCH_ADD, 8
		v := old + a.CompareAdd
		if op == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP {
			wc.Opcode = abi.IB_UVERBS_WC_COMP_SWAP
			if v = old; old == a.CompareAdd {
				v = a.Swap
			}
		}
		binary.NativeEndian.PutUint64(word, v)
		return success, wc
	}
	return locQPOpErr, wc
}

// sendMemory returns the memory of a send request.
func (q *qp) sendMemory(wqe *abi.RxeSendWQE, write bool) ([][]byte, bool) {
	if wqe.WR.SendFlags&flagInline != 0 {
		if wqe.DMA.Length > q.cap.MaxInlineData {
			return nil, false
		}
		return append(q.local[:0], ring.Tail[byte](&q.sq.ring, q.sq.own, abi.Size[abi.RxeSendWQE](), int(wqe.DMA.Length))), true
	}
	var access uint32
	if write {
		access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	return q.gather(q.local[:0], ring.Tail[abi.RxeSGE](&q.sq.ring, q.sq.own, abi.Size[abi.RxeSendWQE](), int(wqe.DMA.NumSGE)), access)
}

func (q *qp) gather(pieces [][]byte, sg []abi.RxeSGE, access uint32) ([][]byte, bool) {
	for _, e := range sg {
		b := q.c.Local(q.pd, e.LKey, e.Addr, int(e.Length), access)
		if b == nil {
			return nil, false
		}
		pieces = append(pieces, b)
	}
	return pieces, true
}

// receive puts a message into the next receive and returns the sender's status.
func (q *qp) receive(wc *abi.UverbsWC, pieces [][]byte, solicited bool, rnrRetry uint8) uint32 {
	rq := q.rq
	if q.srq != nil {
		rq = q.srq.q
		pullRecvs(q.srq.slots, rq)
	} else {
		q.pullRecvs()
	}
	if rq.empty() {
		if rnrRetry == 7 {
			return again
		}
		return rnrRetryExcErr
	}
	wqe := ring.At[abi.RxeRecvWQE](&rq.ring, rq.own)
	dst, ok := q.gather(q.scattered[:0], ring.Tail[abi.RxeSGE](&rq.ring, rq.own, abi.Size[abi.RxeRecvWQE](), int(min(wqe.DMA.NumSGE, q.cap.MaxRecvSGE))),
		abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	wc.WRID = wqe.WRID
	status := uint32(success)
	switch {
	case !ok:
		wc.Status, status = locProtErr, remInvReqErr
	case len(pieces) > 0 && wc.ByteLen > wqe.DMA.Length:
		wc.Status, status = locLenErr, remInvReqErr
	default:
		scatter(dst, pieces)
	}
	rq.pop()
	if q.srq != nil {
		q.srq.checkLimit()
	}
	q.recv.push(wc, solicited || wc.Status != success)
	if wc.Status != success {
		q.toError()
	}
	return status
}

// scatter copies the bytes of src to dst. Their pieces may have different sizes.
func scatter(dst, src [][]byte) {
	for _, s := range src {
		for len(s) > 0 && len(dst) > 0 {
			n := copy(dst[0], s)
			s = s[n:]
			if dst[0] = dst[0][n:]; len(dst[0]) == 0 {
				dst = dst[1:]
			}
		}
	}
}

// toError moves the QP to the error state.
func (q *qp) toError() {
	q.state = stateErr
	q.flush()
}

// flush completes all posted requests without executing them. The receives of an SRQ stay.
func (q *qp) flush() {
	for q.pullSends(); !q.sq.empty(); q.pullSends() {
		q.send.push(&abi.UverbsWC{WRID: ring.At[abi.RxeSendWQE](&q.sq.ring, q.sq.own).WR.WRID, Status: flushErr, QPNum: q.num}, false)
		q.sq.pop()
	}
	for q.pullRecvs(); q.rq != nil && !q.rq.empty(); q.pullRecvs() {
		wc := abi.UverbsWC{WRID: ring.At[abi.RxeRecvWQE](&q.rq.ring, q.rq.own).WRID, Status: flushErr, QPNum: q.num}
		if q.recvs != nil || q.erdma != nil {
			wc.Opcode = wcRecv // rxe leaves it out
		}
		q.recv.push(&wc, true)
		q.rq.pop()
	}
}

// drop removes all posted requests.
func (q *qp) drop() {
	for q.pullSends(); !q.sq.empty(); q.pullSends() {
		q.sq.pop()
	}
	for q.pullRecvs(); q.rq != nil && !q.rq.empty(); q.pullRecvs() {
		q.rq.pop()
	}
}
