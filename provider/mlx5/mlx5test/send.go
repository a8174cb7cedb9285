// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"

	"purerdma/abi"
)

// Operations of the send queue: MLX5_OPCODE_... of libmlx5.
const (
	opNop      = 0x00
	opSendInv  = 0x01
	opWrite    = 0x08
	opWriteImm = 0x09
	opSend     = 0x0a
	opSendImm  = 0x0b
	opRead     = 0x10
	opCompare  = 0x11
	opFetchAdd = 0x12
	opUMR      = 0x25
)

// Bits of the control segment.
const (
	ctrlSolicited = 1 << 1
	ctrlSignaled  = 2 << 2
	inlineData    = 1 << 31
)

// again is no syndrome: the peer is not ready.
const again = 0xff

// vendorWQE is the syndrome of a work request that is not one.
const vendorWQE = 0x68

// request is a send request, taken apart.
type request struct {
	opcode    uint8
	flags     uint8
	imm       uint32
	rest      []byte // segments that are not taken apart
	srqn      uint32 // XRC
	av        []byte // address vector of datagrams and of DC
	addr      uint64
	rkey      uint32
	swapAdd   uint64
	compare   uint64
	local     [][]byte
	length    int
	isInline  bool
	malformed bool
}

// fetch copies the request at q.sent out of the ring and returns its operation and
// how many WQEBB it takes.
func (q *QP) fetch() (opcode uint8, units uint16) {
	n := int(q.sent) * WQEBB % len(q.SQ)
	size := int(q.SQ[n+7]&0x3f) * 16
	for off := 0; off < size; off += WQEBB {
		copy(q.wqe[off:], q.SQ[(n+off)%len(q.SQ):][:WQEBB])
	}
	return q.wqe[3], uint16(max(1, (size+WQEBB-1)/WQEBB))
}

// send carries out the request at q.sent and returns how many WQEBB it took. It is
// not ok if the peer is not ready.
func (q *QP) send() (units uint16, ok bool) {
	_, units = q.fetch()
	var r request
	q.parse(&r)
	e := CQE{Opcode: CQEReq, SendOpcode: r.opcode, WQECounter: q.sent}
	syndrome := uint8(SyndromeLocalQPOp)
	e.VendorSyndrome = vendorWQE
	if !r.malformed {
		e.VendorSyndrome = 0
		syndrome = q.execute(&r, &e)
	}
	switch {
	case syndrome == again:
		return 0, false
	case syndrome != 0:
		e.Opcode, e.Format, e.Syndrome = CQEReqErr, 0, syndrome
		q.completeSend(&e)
		q.sent += units // toError flushes what is behind it
		q.toError()
		return 0, true
	case r.flags&ctrlSignaled != 0:
		q.completeSend(&e)
	}
	return units, true
}

// parse takes the request in q.wqe apart.
func (q *QP) parse(r *request) {
	be := binary.BigEndian
	w := q.wqe[:int(q.wqe[7]&0x3f)*16]
	r.malformed = true
	if len(w) < 16 || uint16(be.Uint32(w)>>8) != q.sent || be.Uint32(w[4:])>>8 != q.Num {
		return
	}
	r.opcode, r.flags, r.imm = w[3], w[11], be.Uint32(w[12:])
	w = w[16:]
	take := func(n int) []byte {
		if len(w) < n {
			w = nil
			return nil
		}
		b := w[:n]
		w = w[n:]
		return b
	}
	if r.opcode == opNop || r.opcode == opUMR {
		r.rest, r.malformed = w, false
		return
	}
	switch {
	case q.Type == abi.IB_UVERBS_QPT_XRC_INI:
		seg := take(16)
		if seg == nil {
			return
		}
		r.srqn = be.Uint32(seg)
	case q.Type == abi.IB_UVERBS_QPT_UD || q.Type == abi.IB_UVERBS_QPT_DRIVER:
		if r.av = take(48); r.av == nil {
			return
		}
	}
	switch r.opcode {
	case opWrite, opWriteImm, opRead, opCompare, opFetchAdd:
		seg := take(16)
		if seg == nil {
			return
		}
		r.addr, r.rkey = be.Uint64(seg), be.Uint32(seg[8:])
	}
	switch r.opcode {
	case opCompare, opFetchAdd:
		seg := take(16)
		if seg == nil {
			return
		}
		r.swapAdd, r.compare = be.Uint64(seg), be.Uint64(seg[8:])
	}
	r.malformed = !q.gather(r, w)
}

// gather finds what the data segments name. Memory that may not be used has no
// piece, which execute finds out by the length.
func (q *QP) gather(r *request, w []byte) bool {
	be := binary.BigEndian
	var access uint32
	if r.opcode == opRead || r.opcode == opCompare || r.opcode == opFetchAdd {
		access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE
	}
	r.local = q.engine.local[:0]
	for len(w) > 0 {
		if len(w) < 4 {
			return false
		}
		n := be.Uint32(w)
		if n&inlineData != 0 {
			n &^= inlineData
			if 4+uint64(n) > uint64(len(w)) {
				return false
			}
			r.isInline = true
			r.local = append(r.local, w[4:4+n])
			r.length += int(n)
			w = w[min(len(w), int(4+n+15)&^15):]
			continue
		}
		if len(w) < 16 || len(r.local) == maxSGE {
			return false
		}
		r.length += int(n)
		if b := q.c.Local(q.pd, be.Uint32(w[4:]), be.Uint64(w[8:]), int(n), access); b != nil {
			r.local = append(r.local, b)
		}
		w = w[16:]
	}
	return true
}

// execute does one request and returns the syndrome, 0 if it succeeded.
func (q *QP) execute(r *request, e *CQE) uint8 {
	if r.opcode == opNop {
		return 0
	}
	if r.opcode == opUMR {
		return q.bind(r)
	}
	if sum(r.local) != r.length {
		return SyndromeLocalProt
	}
	if q.Type == abi.IB_UVERBS_QPT_UD {
		q.datagram(r)
		return 0
	}
	if q.Type == abi.IB_UVERBS_QPT_RAW_PACKET {
		return 0 // there is no wire
	}
	peer, syndrome := q.peer(r)
	if syndrome != 0 {
		return syndrome
	}
	if peer == nil { // UC: it is lost
		return 0
	}
	syndrome = peer.respond(q, r, e)
	if q.Type == abi.IB_UVERBS_QPT_UC {
		return 0
	}
	return syndrome
}

// peer finds whom a request goes to.
func (q *QP) peer(r *request) (*QP, uint8) {
	num, takes := q.attr.DestQPNum, q.connectedTo
	if r.av != nil { // DC
		num, takes = binary.BigEndian.Uint32(r.av[8:])&0xffffff, (*QP).isDCT
	}
	p := q.c.k.qp(num, takes)
	switch {
	case p != nil && p.state >= stateRTR && p.state != stateErr:
		return p, 0
	case q.Type == abi.IB_UVERBS_QPT_UC:
		return nil, 0
	case p != nil && p.state < stateRTR && q.wait(patience, false):
		return nil, again
	}
	return nil, SyndromeRetryExceeded
}

// respond is the peer's side of a request of q.
func (p *QP) respond(q *QP, r *request, e *CQE) uint8 {
	remote := func(access uint32) []byte {
		if p.attr.QPAccessFlags&access == 0 {
			return nil
		}
		return p.c.Remote(p.domain(r), p.Num, r.rkey, r.addr, r.length, access)
	}
	switch r.opcode {
	case opSend:
		return p.receive(q, r, &CQE{Opcode: CQERespSend})
	case opSendImm:
		return p.receive(q, r, &CQE{Opcode: CQERespImm, Imm: r.imm})
	case opSendInv:
		if !p.invalidate(r.imm) {
			return p.receive(q, r, &CQE{Opcode: CQERespErr, Syndrome: SyndromeRemoteInvalid})
		}
		return p.receive(q, r, &CQE{Opcode: CQERespInv, Imm: r.imm})

	case opWrite, opWriteImm:
		dst := remote(abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
		if dst == nil && r.length > 0 {
			return SyndromeRemoteAccess
		}
		for _, piece := range r.local {
			dst = dst[copy(dst, piece):]
		}
		if r.opcode == opWrite {
			return 0
		}
		return p.receive(q, r, &CQE{Opcode: CQERespWrite, Imm: r.imm})

	case opRead:
		src := remote(abi.IB_UVERBS_ACCESS_REMOTE_READ)
		if src == nil && r.length > 0 {
			return SyndromeRemoteAccess
		}
		e.ByteCount = uint32(r.length)
		q.answer(r, e, src)
		return 0

	case opCompare, opFetchAdd:
		word := remote(abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
		if word == nil || r.addr%8 != 0 {
			return SyndromeRemoteAccess
		}
		if r.length != 8 {
			return SyndromeLocalLength
		}
		var old [8]byte
		copy(old[:], word)
		v := binary.NativeEndian.Uint64(word)
		switch {
		case r.opcode == opFetchAdd:
			v += r.swapAdd
		case v == r.compare:
			v = r.swapAdd
		}
		binary.NativeEndian.PutUint64(word, v)
		e.ByteCount = 8
		q.answer(r, e, old[:])
		return 0
	}
	return SyndromeLocalQPOp
}

// answer puts what a read or an atomic brought where the request says, or, if it is
// short and the QP was made so, into its completion.
func (q *QP) answer(r *request, e *CQE, data []byte) {
	scatters := q.Create.Flags&abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE != 0 ||
		q.Create.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0 && q.SignalAll
	if format := q.SendCQ.scatter(len(data)); scatters && format != 0 && r.flags&ctrlSignaled != 0 {
		e.Format, e.Data = format, data
		return
	}
	for _, piece := range r.local {
		data = data[copy(piece, data):]
	}
}

// scatter returns the format of a completion that takes n bytes of data, 0 if they
// do not fit.
func (q *CQ) scatter(n int) uint8 {
	switch {
	case n == 0:
		return 0
	case n <= 32:
		return 1
	case n <= 64 && q.CQESize == 128:
		return 2
	}
	return 0
}

func sum(pieces [][]byte) int {
	n := 0
	for _, b := range pieces {
		n += len(b)
	}
	return n
}
