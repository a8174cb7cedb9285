// SPDX-License-Identifier: Apache-2.0

package erdma

import "purerdma/test/pci"

// message is a message that takes a receive.
type message struct {
	opcode     uint8 // of the completion
	data       [][]byte
	written    uint32 // bytes of a WRITE
	imm        uint32
	invalidate uint32
	solicited  bool
}

// ringReceive handles a doorbell of the receive queue, which is for one receive.
func (q *qp) ringReceive(pi uint16) {
	switch {
	case q.state > stateRTS:
		return // see the package's documentation
	case pi != q.receive.pi+1 || q.receive.waiting() == q.receive.depth:
		q.d.violation(q.name(), "a doorbell for receive %#x, but the device is at %#x with %d of %d receives", pi, q.receive.pi, q.receive.waiting(), q.receive.depth)
		return
	}
	q.receive.pi = pi
}

// accept executes a message of the peer.
func (q *qp) accept(m *message) *failure {
	if q.receive.waiting() == 0 {
		return &failure{statusGeneral, eventReceive, refuse(badFormat, "%s: no receive is posted for a message of %d bytes", q.name(), pci.Length(m.data))}
	}
	e := completion{queue: queueReceive, opcode: m.opcode, qpn: q.n, index: uint32(q.receive.ci), size: m.written}
	if m.opcode != opReceiveWrite {
		e.size = uint32(pci.Length(m.data))
	}
	err := q.store(m)
	q.receive.ci++
	if err != nil {
		e.opcode, e.status, e.size = opReceive, err.cause.receive(), 0
		q.receiveCQ.post(e, true)
		return remote(err)
	}
	switch m.opcode {
	case opReceiveImm, opReceiveWrite:
		le.PutUint32(e.imm[:], m.imm)
	case opReceiveInv:
		be.PutUint32(e.imm[:], m.invalidate)
	}
	q.receiveCQ.post(e, m.solicited)
	return nil
}

// store stores the data of a message in the next receive, and invalidates the message's key.
func (q *qp) store(m *message) *accessError {
	rqe := q.receive.at(q.d, q.receive.ci, rqeSize)
	if rqe == nil {
		return refuse(badFormat, "the host has removed the memory of the receive queue")
	}
	if le.Uint16(rqe) != q.receive.ci+1 || le.Uint32(rqe[4:]) != q.n {
		q.d.violation(q.name(), "receive %#x: it has index %#x and QP %#x", q.receive.ci, le.Uint16(rqe), le.Uint32(rqe[4:]))
		return refuse(badFormat, "receive %#x is not valid", q.receive.ci)
	}
	addr, length, key := le.Uint64(rqe[16:]), le.Uint32(rqe[24:]), le.Uint32(rqe[28:])
	n := pci.Length(m.data)
	if n > int(length) {
		return refuse(badAddress, "a message of %d bytes for a receive of %d bytes", n, length)
	}
	if n > 0 {
		to, err := q.memory(key, localWrite, addr, uint64(n))
		if err != nil {
			return err
		}
		pci.Transfer(to, m.data)
	}
	if m.opcode == opReceiveInv {
		return q.d.invalidate(m.invalidate, q.pd)
	}
	return nil
}
