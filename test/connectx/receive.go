// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// receive stores a message in the next receive and completes it.
func (t *target) receive(m *message) answer {
	a, ok := t.ready()
	if !ok {
		return a
	}
	w, ok := t.queue.peek(t.d, t.queueOwner())
	if !ok {
		return t.refuse(prm.SyndromeRemoteOp, prm.EventWQCatas, "its receives are not there")
	}
	t.traceReceive(w)
	if q, ok := t.owner.(*qp); ok {
		if s := t.d.fabric.forcedReceive(q); s != prm.SyndromeNone {
			return t.refuseReceive(w, prm.SyndromeRemoteOp, s, 0, "the test wants it so")
		}
	}
	var e completion
	t.describe(&e, m, w)
	if m.opcode == prm.WQESendInv {
		if err := t.d.invalidate(t, m.imm); err != nil {
			return t.refuseReceive(w, prm.SyndromeRemoteInvalid, prm.SyndromeRemoteInvalid, prm.EventWQInvalidReq, "%v", err)
		}
	}
	var wide []byte
	if m.opcode != prm.WQEWriteImm {
		n := pci.Length(m.data)
		most := 0
		switch t.scatter {
		case prm.ScatterResp32:
			most = 32
		case prm.ScatterResp64:
			most = 64
		}
		if n > 0 && n <= most && t.cq.holds(n) {
			pci.Transfer([][]byte{t.d.short[:n]}, m.data)
			wide = t.cq.inline(&e, t.d.short[:n])
		} else {
			var s prm.Syndrome
			var err error
			t.d.remote, s, err = t.d.scatterList(t.d.remote[:0], access{t.pd, t.n, localWrite}, w.elements, n)
			switch s {
			case prm.SyndromeLocalProt:
				return t.refuseReceive(w, prm.SyndromeRemoteOp, s, 0, "receive %#x: %v", w.index, err)
			case prm.SyndromeLocalLength:
				return t.refuseReceive(w, prm.SyndromeRemoteInvalid, s, 0, "receive %#x is too short for %d bytes", w.index, n)
			}
			pci.Transfer(t.d.scattered(t.d.remote, n), m.data)
		}
	}
	t.queue.take(w)
	done := false
	if t.srq != nil { // a title does not identify the receives of an SRQ
		done = t.cq.completeWide(t.d, &e, wide)
	} else {
		done = t.cq.completeAlike(t.d, &e, wide)
	}
	if !done {
		t.owner.fault(prm.EventWQCatas)
		return answer{kind: refused, syndrome: prm.SyndromeRemoteOp}
	}
	if t.srq != nil {
		t.srq.checkLimit(t.d)
	}
	return answer{kind: ack}
}

// refuseReceive ends a receive with an error, and with it the target's QP. remote is the peer's
// syndrome.
func (t *target) refuseReceive(w receive, remote, local prm.Syndrome, why prm.EventType, format string, args ...any) answer {
	t.queue.take(w)
	t.completeError(w, local)
	return t.refuse(remote, why, format, args...)
}

// describe fills the completion of a receive.
func (t *target) describe(e *completion, m *message, w receive) {
	c := e[:]
	switch m.opcode {
	case prm.WQEWriteImm:
		prm.CQE.Opcode.Set(c, prm.CQERespWrite)
	case prm.WQESendImm:
		prm.CQE.Opcode.Set(c, prm.CQERespImm)
	case prm.WQESendInv:
		prm.CQE.Opcode.Set(c, prm.CQERespInv)
	default:
		prm.CQE.Opcode.Set(c, prm.CQERespSend)
	}
	if m.opcode != prm.WQESend {
		prm.CQE.Imm.Set(c, uint64(m.imm))
	}
	prm.CQE.UserIndex.Set(c, uint64(t.index))
	prm.CQE.QPN.Set(c, uint64(t.n))
	prm.CQE.WQECounter.Set(c, t.d.receiveCounter(t.queue, w.index))
	prm.CQE.ByteCount.Set(c, m.length)
	prm.CQE.Timestamp.Set(c, t.d.time())
	if m.solicited {
		prm.CQE.Solicited.Set(c, 1)
	}
	if !t.datagram {
		return
	}
	prm.CQE.ByteCount.Set(c, m.length+grhLen)
	prm.CQE.GRH.Set(c, 1)
	prm.CQE.L3Type.Set(c, t.l3)
	prm.CQE.RemoteQPN.Set(c, m.from.sourceQPN())
	if m.opcode == prm.WQESend {
		prm.CQE.Imm.Set(c, defaultPKey)
	}
}

// defaultPKey is the only key in the port's table.
const defaultPKey = 0xffff

// completeError completes a receive with an error.
func (t *target) completeError(w receive, s prm.Syndrome) {
	var e completion
	c := e[:]
	prm.CQE.Opcode.Set(c, prm.CQERespErr)
	prm.CQE.UserIndex.Set(c, uint64(t.index))
	prm.CQE.QPN.Set(c, uint64(t.n))
	prm.CQE.WQECounter.Set(c, t.d.receiveCounter(t.queue, w.index))
	prm.CQE.Syndrome.Set(c, uint64(s))
	if s == prm.SyndromeFlush {
		prm.CQE.VendorSyndrome.Set(c, vendorFlush)
	}
	t.cq.complete(t.d, &e)
}

// completeReceive completes a receive of the QP itself.
func (q *qp) completeReceive(w receive, s prm.Syndrome) {
	t := target{d: q.d, n: q.n, queue: q.recv, cq: q.recvCQ, index: uint32(prm.QPC.UserIndex.Get(q.context[:]))}
	t.completeError(w, s)
}
