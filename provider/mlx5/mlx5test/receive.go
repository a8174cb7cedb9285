// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"time"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// endOfList is the key of the element that ends a receive.
const endOfList = 0x100

// domain is the PD that a request uses: that of the SRQ it names, or the QP's.
func (p *QP) domain(r *request) *fakeuverbs.PD {
	if s := p.srqOf(r); s != nil && p.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		return s.pd
	}
	return p.pd
}

// srqOf is the SRQ that takes a request, or nil.
func (p *QP) srqOf(r *request) *SRQ {
	if p.Type != abi.IB_UVERBS_QPT_XRC_TGT {
		return p.SRQ
	}
	for _, s := range p.c.srqs {
		if s.Num == r.srqn && s.xrcd == p.xrcd {
			return s
		}
	}
	return nil
}

// receive puts a message of q into the next receive, completes it with e, and
// returns q's syndrome.
func (p *QP) receive(q *QP, r *request, e *CQE) uint8 {
	s := p.srqOf(r)
	if s == nil && p.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		return SyndromeRemoteInvalid
	}
	index, list, ok := p.nextReceive(s)
	if !ok {
		if q.Type == abi.IB_UVERBS_QPT_UC {
			return 0
		}
		if q.wait(rnrPatience*time.Duration(q.attr.RNRRetry+1), q.attr.RNRRetry == 7) {
			return again
		}
		return SyndromeRNRRetryExceeded
	}
	e.WQECounter, e.QPN, e.UserIndex, e.ByteCount = index, p.Num, p.recvIndex(s), uint32(r.length)
	e.Solicited = r.flags&ctrlSolicited != 0
	payload := r.local
	if r.opcode == opWriteImm {
		payload = nil
	}
	own := e.Syndrome
	if own == 0 {
		own = p.scatter(e, list, payload, p.domain(r))
	}
	cq := p.RecvCQ
	if p.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		cq = s.CQ
	}
	p.took(s)
	cq.complete(e, p.cqe[:])
	if own != 0 {
		p.toError()
		return SyndromeRemoteInvalid
	}
	return 0
}

// recvIndex is how the completion of a receive names its queue.
func (p *QP) recvIndex(s *SRQ) uint32 {
	switch {
	case p.c.resp.CQEVersion == 0 && s != nil:
		return s.Num
	case s != nil && p.Type == abi.IB_UVERBS_QPT_XRC_TGT:
		return s.Create.UIdx
	}
	return p.uidx()
}

// nextReceive returns the next receive: how completions name it, and its elements.
func (p *QP) nextReceive(s *SRQ) (index uint16, list []byte, ok bool) {
	if s != nil {
		if s.taken == s.RecvCounter() {
			return 0, nil, false
		}
		at := int(s.head) * s.Stride % len(s.Buf)
		return s.head, s.Buf[at+16:][:s.Stride-16], true
	}
	if len(p.RQ) == 0 || p.received == p.RecvCounter() {
		return 0, nil, false
	}
	return p.received, p.RQ[int(p.received)*p.RQStride%len(p.RQ):][:p.RQStride], true
}

// took goes on to the next receive. Those of an SRQ name the one after them.
func (p *QP) took(s *SRQ) {
	if s == nil {
		p.received++
		return
	}
	at := int(s.head) * s.Stride % len(s.Buf)
	s.head = binary.BigEndian.Uint16(s.Buf[at+2:])
	s.taken++
	if left := s.RecvCounter() - s.taken; s.limit > 0 && uint32(left) < s.limit {
		s.limit = 0
		s.c.Event(uverbs.EventSRQLimitReached, s.UserHandle)
	}
}

// scatter copies a message to the elements of a receive, or to its completion if it
// is short and the QP was made so. It returns the syndrome of the receive.
func (p *QP) scatter(e *CQE, list []byte, payload [][]byte, pd *fakeuverbs.PD) uint8 {
	be := binary.BigEndian
	fail := func(syndrome uint8) uint8 {
		e.Opcode, e.Syndrome = CQERespErr, syndrome
		return syndrome
	}
	dst := p.remote[:0]
	need := sum(payload)
	if format := p.RecvCQ.scatterOf(p, need); format != 0 {
		b := p.wqe[:0] // p sends nothing at this time
		for _, piece := range payload {
			b = append(b, piece...)
		}
		e.Format, e.Data = format, b
		return 0
	}
	room := 0
	for ; len(list) >= 16 && room < need; list = list[16:] {
		n, key := be.Uint32(list), be.Uint32(list[4:])
		if key == endOfList {
			break
		}
		b := p.c.Local(pd, key, be.Uint64(list[8:]), int(n), abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
		if b == nil {
			return fail(SyndromeLocalProt)
		}
		room += len(b)
		dst = append(dst, b)
	}
	if room < need {
		return fail(SyndromeLocalLength)
	}
	for _, s := range payload {
		for len(s) > 0 {
			n := copy(dst[0], s)
			s = s[n:]
			if dst[0] = dst[0][n:]; len(dst[0]) == 0 {
				dst = dst[1:]
			}
		}
	}
	return 0
}

// scatterOf is the format of the completion of a receive of n bytes of a QP, 0 if
// they go to memory.
func (q *CQ) scatterOf(p *QP, n int) uint8 {
	if q == nil || p.Create.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE == 0 || p.Type == abi.IB_UVERBS_QPT_UD {
		return 0
	}
	return q.scatter(n)
}
