// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "fmt"

// Opcodes of requests.
const (
	opSend        = 0x0
	opSendImm     = 0x1
	opSendInv     = 0x2
	opWrite       = 0x4
	opWriteImm    = 0x5
	opRead        = 0x6
	opCompareSwap = 0x8
	opFetchAdd    = 0xb
	opLocalInv    = 0xc
	opFastReg     = 0xd
	opBind        = 0xe
)

// Flags of requests.
const (
	flagSignaled  = 1 << 0
	flagSolicited = 1 << 3
	flagInline    = 1 << 4
)

// request is a request of a send queue.
type request struct {
	wqe       [(2 + maxVariableSGE) * slotSize]byte
	opcode    uint8
	signaled  bool
	solicited bool
	inline    bool
	slots     int    // of 16 bytes, with the two slots of the header
	entries   uint64 // of the send queue
	length    uint64
	imm       uint32 // or the key to invalidate
	psns      uint32 // number of packets, 0 for a request that does not leave the device
	data      [][]byte
}

// ringSend handles a doorbell of the send queue.
func (q *qp) ringSend(index uint32) {
	switch {
	case q.state == stateError:
		return // programs complete requests by themselves
	case q.state < stateRTR:
		q.d.violation(q.name(), "a doorbell of the send queue in %v", q.state)
		return
	case !q.send.produce(index):
		q.d.violation(q.name(), "a doorbell with index %#x, but the device is at %#x with %d of %d requests", index, q.send.pi, q.send.posted(), q.send.depth)
		return
	}
	q.run()
}

// fetch reads the next request. It returns the reason why the request is not valid, or "".
func (q *qp) fetch(r *request) string {
	*r = request{data: r.data[:0], entries: 1}
	if !q.send.read(q.d.mem, q.send.ci, r.wqe[:]) {
		return "the host has removed the memory of the send queue"
	}
	w := r.wqe[:]
	flags := w[1]
	r.opcode, r.slots = w[0], int(w[2])
	r.signaled, r.solicited, r.inline = q.allSig || flags&flagSignaled != 0, flags&flagSolicited != 0, flags&flagInline != 0
	switch r.opcode {
	case opSend, opSendImm, opSendInv, opWrite, opWriteImm, opRead:
	case opCompareSwap, opFetchAdd:
		r.slots = 3
	case opLocalInv, opFastReg, opBind:
		r.slots = 2
	default:
		return fmt.Sprintf("operation %#x", r.opcode)
	}
	if text := q.fetchSlots(r); text != "" {
		return text
	}
	r.imm, r.length = le.Uint32(w[4:]), uint64(le.Uint32(w[8:]))
	switch r.opcode {
	case opCompareSwap, opFetchAdd:
		r.length = 8
	case opLocalInv, opFastReg, opBind:
		if q.kind != typeRC {
			return fmt.Sprintf("operation %#x of a QP of type %d", r.opcode, q.kind)
		}
		return ""
	}
	if q.kind != typeRC && r.opcode != opSend && r.opcode != opSendImm {
		return fmt.Sprintf("operation %#x of a QP of type %d", r.opcode, q.kind)
	}
	if r.length > maxMessage {
		return fmt.Sprintf("a message of %d bytes", r.length)
	}
	r.psns = q.packets(r.length)
	switch {
	case q.kind != typeRC:
		return ""
	case q.messages > 0:
		return q.checkMessage(r)
	}
	return q.checkSearch(r)
}

// fetchSlots reads the slots of a request of a variable size, whose first slot is known.
func (q *qp) fetchSlots(r *request) string {
	limit := requestSize / slotSize
	if q.variable {
		limit = len(r.wqe) / slotSize
	}
	if r.slots < 2 || r.slots > limit {
		return fmt.Sprintf("it has %d slots", r.slots)
	}
	if !q.variable {
		return ""
	}
	if r.entries = uint64(r.slots); r.entries > q.send.posted() {
		return fmt.Sprintf("it has %d slots, and %d are posted", r.slots, q.send.posted())
	}
	for i := 1; i < r.slots; i++ {
		if !q.send.read(q.d.mem, q.send.ci+uint64(i), r.wqe[i*slotSize:]) {
			return "the host has removed the memory of the send queue"
		}
	}
	return ""
}

// packets returns the number of packets of a message.
func (q *qp) packets(n uint64) uint32 {
	mtu := uint64(256) << q.mtu
	return uint32(max(1, (n+mtu-1)/mtu))
}

// checkSearch checks the entry of a request in the table after the send queue, in which a device
// finds requests to repeat. It contains the index of the request. The kernel writes it in units of
// slots, and libbnxt_re in units of requests.
func (q *qp) checkSearch(r *request) string {
	i := q.send.ci % uint64(q.send.depth)
	b := q.send.buffer.At(q.d.mem, uint64(q.send.depth)*requestSize+i*searchSize, searchSize)
	if b == nil {
		return "the host has removed the memory of its table"
	}
	first, next, at := le.Uint32(b)&psnMask, le.Uint32(b[4:])&psnMask, le.Uint16(b[8:])
	if want := (q.sendPSN + r.psns) & psnMask; first != q.sendPSN || next != want || at != uint16(i) && at != uint16(i*requestSize/slotSize) {
		return fmt.Sprintf("its entry in the table has PSNs %#x to %#x and index %#x, want %#x to %#x and %#x", first, next, at, q.sendPSN, want, i)
	}
	return ""
}

// checkMessage checks the entry of a message in the table of P7.
func (q *qp) checkMessage(r *request) string {
	i := q.send.ci % uint64(q.send.depth)
	b := q.send.buffer.At(q.d.mem, uint64(q.send.depth)*uint64(q.send.size)+uint64(q.message)*messageSize, messageSize)
	if b == nil {
		return "the host has removed the memory of its table"
	}
	v, want := le.Uint64(b), (q.sendPSN+r.psns)&psnMask
	first, next, at := uint32(bits(v, 23, 0)), uint32(bits(v, 47, 24)), uint16(bits(v, 63, 48))
	if first != q.sendPSN || next != want || at != uint16(i) && at != uint16(i*uint64(q.send.size)/slotSize) {
		return fmt.Sprintf("its entry %d in the table has PSNs %#x to %#x and index %#x, want %#x to %#x and %#x", q.message, first, next, at, q.sendPSN, want, i)
	}
	return ""
}

// gather resolves the memory of a request.
func (q *qp) gather(r *request, need rights) *failure {
	if r.inline {
		if r.length > uint64((r.slots-2)*slotSize) || r.opcode == opRead {
			return local(statusLocalQPOp, reasonFormat, "%d inline bytes", r.length)
		}
		r.data = append(r.data, r.wqe[2*slotSize:][:r.length])
		return nil
	}
	var sum uint64
	for i := range r.slots - 2 {
		s := r.wqe[(2+i)*slotSize:]
		addr, key, n := le.Uint64(s), le.Uint32(s[8:]), uint64(le.Uint32(s[12:]))
		if sum += n; n == 0 {
			continue
		}
		if sum > maxMessage {
			break
		}
		var err *accessError
		if r.data, err = q.memory(r.data, key, need, addr, n); err != nil {
			return local(statusLocalProtection, reasonMemory, "%v", err)
		}
	}
	if sum != r.length {
		return local(statusLocalLength, reasonFormat, "SGEs of %d bytes, with length %d", sum, r.length)
	}
	return nil
}
