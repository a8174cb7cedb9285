// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"encoding/binary"

	"purerdma/test/pci"
)

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 1 << 31

// A failure ends a connection. It contains the status of the failed request, and the event of
// the peer.
type failure struct {
	status status
	event  uint8
	err    *accessError
}

// local and remote return the failure for an error at this end or at the peer, or nil.
func local(err *accessError) *failure {
	if err == nil {
		return nil
	}
	return &failure{err.cause.send(), eventQPFatal, err}
}

func remote(err *accessError) *failure {
	if err == nil {
		return nil
	}
	return &failure{statusGeneral, eventAccess, err}
}

// execute executes a request of a connected QP, and completes it if it succeeds.
func (q *qp) execute(r *request) *failure {
	q.d.trace("%s request %#x: opcode %d, %x", q.name(), r.index, r.opcode, r.wqe[8:r.size])
	var size uint32
	var f *failure
	switch {
	case q.failNext != statusOK:
		f = &failure{q.failNext, eventQPFatal, refuse(badFormat, "injected fault")}
		q.failNext = statusOK
		return f
	case r.mistake != "":
		f = local(refuse(badFormat, "%s", r.mistake))
	case r.opcode == opSend || r.opcode == opSendImm || r.opcode == opSendInv:
		f = q.executeSend(r)
	case r.opcode == opWrite || r.opcode == opWriteImm:
		f = q.executeWrite(r)
	case r.opcode == opRead || r.opcode == opReadInv:
		size = le.Uint32(r.wqe[12:])
		f = q.executeRead(r)
	case r.opcode == opCompareSwap || r.opcode == opFetchAdd:
		size = 8
		f = q.executeAtomic(r)
	case r.opcode == opRegMR:
		f = local(q.executeRegMR(r))
	case r.opcode == opLocalInv:
		f = local(q.d.invalidate(le.Uint32(r.wqe[20:]), q.pd))
	default:
		f = local(refuse(badFormat, "opcode %d", r.opcode))
	}
	if f != nil {
		q.d.trace("%s request %#x failed: %v", q.name(), r.index, f.err)
		if f.status == statusSend {
			q.d.violation(q.name(), "request %#x: %v", r.index, f.err)
		}
		return f
	}
	q.complete(r, statusOK, size)
	return nil
}

func (q *qp) executeSend(r *request) *failure {
	data, err := q.data(r, 16)
	if err != nil {
		return local(err)
	}
	m := message{opcode: opReceive, data: data, solicited: r.solicited}
	switch r.opcode {
	case opSendImm:
		m.opcode, m.imm = opReceiveImm, be.Uint32(r.wqe[8:])
	case opSendInv:
		m.opcode, m.invalidate = opReceiveInv, le.Uint32(r.wqe[8:])
	}
	return q.peer.accept(&m)
}

func (q *qp) executeWrite(r *request) *failure {
	data, err := q.data(r, 32)
	if err != nil {
		return local(err)
	}
	n := pci.Length(data)
	addr := uint64(le.Uint32(r.wqe[20:])) | uint64(le.Uint32(r.wqe[24:]))<<32
	if n > 0 {
		to, err := q.peer.memory(le.Uint32(r.wqe[16:]), remoteWrite, addr, uint64(n))
		if err != nil {
			return remote(err)
		}
		pci.Transfer(to, data)
	}
	if r.opcode == opWriteImm {
		return q.peer.accept(&message{opcode: opReceiveWrite, imm: be.Uint32(r.wqe[8:]), written: uint32(n), solicited: r.solicited})
	}
	return nil
}

func (q *qp) executeRead(r *request) *failure {
	if r.size < 48 {
		return local(refuse(badFormat, "a READ of %d bytes", r.size))
	}
	n := uint64(le.Uint32(r.wqe[12:]))
	from := readSGE(r.wqe[32:])
	if uint64(from.length) != n || n > maxMessage {
		return local(refuse(badFormat, "a READ of %d bytes from %d bytes", n, from.length))
	}
	addr, key := uint64(le.Uint32(r.wqe[20:]))|uint64(le.Uint32(r.wqe[24:]))<<32, le.Uint32(r.wqe[16:])
	if n > 0 {
		to, err := q.memory(key, localWrite, addr, n)
		if err != nil {
			return local(err)
		}
		data, err := q.peer.memory(from.key, remoteRead, from.addr, n)
		if err != nil {
			return remote(err)
		}
		pci.Transfer(to, data)
	}
	if r.opcode == opReadInv {
		return local(q.d.invalidate(le.Uint32(r.wqe[8:]), q.pd))
	}
	return nil
}

// executeAtomic executes an atomic operation on 8 bytes. It is also atomic with the processors of the host, which the
// driver reports as IB_ATOMIC_GLOB.
func (q *qp) executeAtomic(r *request) *failure {
	if r.size < 64 {
		return local(refuse(badFormat, "an atomic request of %d bytes", r.size))
	}
	from, to := readSGE(r.wqe[32:]), readSGE(r.wqe[48:])
	if to.length != 8 {
		return local(refuse(badFormat, "an atomic request with a result of %d bytes", to.length))
	}
	result, err := q.memory(to.key, localWrite, to.addr, 8)
	if err != nil {
		return local(err)
	}
	if from.addr%8 != 0 {
		return remote(refuse(badAddress, "an atomic request to %#x, which is not aligned", from.addr))
	}
	target, err := q.peer.memory(from.key, remoteAtomic, from.addr, 8)
	if err != nil {
		return remote(err)
	}
	if len(target) != 1 || !pci.Aligned64(target[0]) {
		return remote(refuse(badAddress, "an atomic request to memory in pieces"))
	}
	var old uint64
	if operand := le.Uint64(r.wqe[16:]); r.opcode == opFetchAdd {
		old = pci.FetchAdd(target[0], operand)
	} else {
		old = pci.CompareSwap(target[0], le.Uint64(r.wqe[24:]), operand)
	}
	pci.Transfer(result, [][]byte{binary.NativeEndian.AppendUint64(nil, old)})
	return nil
}

// executeRegMR registers memory by a request. The region was created by a command, which has the
// address of its page list.
func (q *qp) executeRegMR(r *request) *accessError {
	addr, length, key := le.Uint64(r.wqe[8:]), uint64(le.Uint32(r.wqe[16:])), le.Uint32(r.wqe[20:])
	attrs := uint64(le.Uint32(r.wqe[24:]))
	m := q.d.mrs[key>>8]
	switch {
	case m == nil || m.kind != mrFast:
		return refuse(badKey, "there is no region %#x that requests register", key)
	case m.pd != q.pd:
		return refuse(badPD, "region %#x has PD %d, not %d", key, m.pd, q.pd)
	case m.valid:
		return refuse(badKey, "region %#x is registered", key)
	}
	n := bits(attrs, 31, 12)
	p := pci.Pages{Shift: m.list.Shift, First: addr & (1<<m.list.Shift - 1)}
	if bits(attrs, 7, 6) == 0 {
		if 32+8*n > uint64(r.size) {
			return refuse(badFormat, "%d pages in a request of %d bytes", n, r.size)
		}
		for i := range n {
			p.Entries = append(p.Entries, le.Uint64(r.wqe[32+8*i:]))
		}
	} else {
		if n > m.list.N {
			return refuse(badFormat, "%d pages in a region of %d", n, m.list.N)
		}
		p.Table, p.Levels, p.N = m.list.Table, m.list.Levels, n
	}
	if err := p.Check(length, maxPages); err != nil {
		return refuse(badFormat, "region %#x: %v", key, err)
	}
	m.key, m.rights, m.start, m.length, m.valid = key, rights(bits(attrs, 5, 1)), addr, length, true
	m.pages = p
	return nil
}
