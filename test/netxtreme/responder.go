// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"encoding/binary"
	"time"

	"purerdma/test/pci"
)

// answer is the answer to a request.
type answer struct {
	kind           answerKind
	status, reason uint8         // of a refused request
	after          time.Duration // delay before the next attempt
	data           [][]byte      // data of a READ, or the old value of an atomic operation
}

type answerKind uint8

const (
	silence  answerKind = iota // no receiver
	ack                        // done
	notReady                   // no posted receive
	refused                    // rejected, and the peer's QP has failed
)

// Rights of a QP for its peer. Keys have other bits for the same rights.
const (
	allowWrite  = 1 << 1
	allowRead   = 1 << 2
	allowAtomic = 1 << 3
)

// Reasons of errors of the peer's requests in events.
const (
	peerTooLong      = 0x3 // for the receive
	peerRxKey        = 0x6 // the reasons for the other causes follow
	peerTxKey        = 0xa
	peerAtomic       = 0x10 // not aligned
	peerInvalidate   = 0x11
	peerMemory       = 0x12
	peerFormat       = 0x16
	peerUnsupported  = 0x8 // an operation that the QP does not allow
	statusReceiveLen = 2   // of receives
	statusReceiveMem = 3
	statusReceiveInv = 5
)

// refuse answers a request that the QP cannot execute, and ends the QP.
func (p *qp) refuse(status, reason, mine uint8, text string) answer {
	p.d.trace("%s: %s", p.name(), text)
	p.fail(0, mine)
	return answer{kind: refused, status: status, reason: reason}
}

// executed is the last executed request of the peer. Its answer may be lost, and the peer then repeats the request.
type executed struct {
	valid  bool
	psn    uint32
	answer answer
}

// respond executes a request of the peer. A repeated request gets the same answer, but a READ reads again.
func (p *qp) respond(from *qp, r *request) answer {
	if last := &p.last; last.valid && last.psn == from.sendPSN && from.sendPSN != p.receivePSN {
		if r.opcode == opRead {
			return p.takeRead(r)
		}
		return last.answer
	}
	if ahead := (from.sendPSN - p.receivePSN) & psnMask; ahead != 0 {
		p.d.trace("%s: a request with PSN %#x, want %#x", p.name(), from.sendPSN, p.receivePSN)
		return answer{}
	}
	var a answer
	switch r.opcode {
	case opSend, opSendImm, opSendInv:
		a = p.accept(r)
	case opWrite, opWriteImm:
		a = p.takeWrite(r)
	case opRead:
		a = p.takeRead(r)
	default:
		a = p.takeAtomic(r)
	}
	if a.kind == ack {
		p.last = executed{true, p.receivePSN, a}
		p.receivePSN = (p.receivePSN + r.psns) & psnMask
	}
	return a
}

// target returns memory of the QP for a request.
func (p *qp) target(r *request, right uint8, need rights, key uint32, addr uint64) ([][]byte, answer, bool) {
	if p.access&right == 0 {
		return nil, p.refuse(statusRemoteInvalid, reasonNAKInvalid, peerUnsupported, "the QP does not allow this operation"), false
	}
	if r.length == 0 {
		return nil, answer{}, true // the key is not checked
	}
	b, err := p.memory(nil, key, need, addr, r.length)
	if err != nil {
		mine := uint8(peerRxKey)
		if need == remoteRead {
			mine = peerTxKey
		}
		return nil, p.refuse(statusRemoteAccess, reasonNAKAccess, mine+uint8(err.cause), err.text), false
	}
	return b, answer{}, true
}

func (p *qp) takeWrite(r *request) answer {
	if r.opcode == opWriteImm && p.receives() == 0 {
		return answer{kind: notReady, after: pci.RNRDelay(p.minRNR)}
	}
	dst, a, ok := p.target(r, allowWrite, remoteWrite, le.Uint32(r.wqe[24:]), le.Uint64(r.wqe[16:]))
	if !ok {
		return a
	}
	pci.Transfer(dst, r.data)
	if r.opcode == opWriteImm {
		return p.accept(r)
	}
	return answer{kind: ack}
}

func (p *qp) takeRead(r *request) answer {
	src, a, ok := p.target(r, allowRead, remoteRead, le.Uint32(r.wqe[24:]), le.Uint64(r.wqe[16:]))
	if !ok {
		return a
	}
	return answer{kind: ack, data: src}
}

// takeAtomic executes an atomic operation. It is also atomic with the processors of the host, which the driver reports as
// IB_ATOMIC_GLOB.
func (p *qp) takeAtomic(r *request) answer {
	addr := le.Uint64(r.wqe[8:])
	if addr%8 != 0 {
		return p.refuse(statusRemoteInvalid, reasonNAKInvalid, peerAtomic, "an atomic operation that is not aligned")
	}
	word, a, ok := p.target(r, allowAtomic, remoteAtomic, le.Uint32(r.wqe[4:]), addr)
	if !ok {
		return a
	}
	if len(word) != 1 || !pci.Aligned64(word[0]) {
		return p.refuse(statusRemoteAccess, reasonNAKAccess, peerMemory, "an atomic operation on memory in pieces")
	}
	var old uint64
	if operand := le.Uint64(r.wqe[16:]); r.opcode == opFetchAdd {
		old = pci.FetchAdd(word[0], operand)
	} else {
		old = pci.CompareSwap(word[0], le.Uint64(r.wqe[24:]), operand)
	}
	return answer{kind: ack, data: [][]byte{binary.NativeEndian.AppendUint64(nil, old)}}
}

// receives returns the number of posted receives.
func (p *qp) receives() uint64 {
	if p.srq != nil {
		return p.srq.queue.posted()
	}
	return p.receive.posted()
}

// ringReceive handles a doorbell of the receive queue.
func (p *qp) ringReceive(index uint32) {
	switch {
	case p.state == stateError:
		return // programs complete receives by themselves
	case p.srq != nil || p.state == stateReset:
		p.d.violation(p.name(), "a doorbell of the receive queue in %v", p.state)
	case !p.receive.produce(index):
		p.d.violation(p.name(), "a doorbell with index %#x, but the device is at %#x with %d of %d receives", index, p.receive.pi, p.receive.posted(), p.receive.depth)
	}
}

// accept executes a message that takes a receive.
func (p *qp) accept(r *request) answer {
	if p.receives() == 0 {
		return answer{kind: notReady, after: pci.RNRDelay(p.minRNR)}
	}
	var e cqe
	le.PutUint32(e[:], uint32(r.length))
	le.PutUint32(e[4:], r.imm)
	le.PutUint64(e[8:], p.handle)
	const immediate, invalidated, write = 0x2, 0x4, 0x8
	var flags uint16
	switch r.opcode {
	case opSendImm:
		flags = immediate
	case opWriteImm:
		flags = immediate | write
	case opSendInv:
		flags = invalidated
	}
	data := r.data
	if r.opcode == opWriteImm {
		data = nil
	}
	status, err := p.takeReceive(&e, data)
	if err == nil && r.opcode == opSendInv {
		if bad := p.invalidate(r.imm); bad != nil {
			status, err = statusReceiveInv, &failure{statusRemoteInvalid, peerInvalidate, bad.text}
		}
	}
	p.completeReceive(&e, completeReceive, status, flags, r.solicited)
	if err != nil {
		reason := uint8(reasonNAKOp)
		if err.status == statusRemoteInvalid {
			reason = reasonNAKInvalid
		}
		return p.refuse(err.status, reason, err.reason, err.text)
	}
	return answer{kind: ack}
}

// completeReceive writes the completion of a receive.
func (p *qp) completeReceive(e *cqe, kind, status uint8, flags uint16, solicited bool) {
	if p.srq != nil {
		flags |= 1
	}
	e.set(kind, status, flags)
	p.receiveCQ.post(e, solicited)
	if p.srq != nil {
		p.srq.checkLimit()
	}
}

// takeReceive stores data in the next receive, and puts the receive's number into the completion.
// It returns the status of the completion, and the reason of an error for the peer.
func (p *qp) takeReceive(e *cqe, data [][]byte) (uint8, *failure) {
	queue := &p.receive
	if p.srq != nil {
		queue = &p.srq.queue
	}
	var w [(2 + 15) * slotSize]byte
	broken := &failure{statusRemoteOp, peerMemory, "the host has removed the memory of the receives"}
	if !queue.read(p.d.mem, queue.ci, w[:]) {
		p.d.violation(p.name(), "%s", broken.text)
		return statusReceiveMem, broken
	}
	index := queue.ci % uint64(queue.depth)
	queue.ci++
	const opReceive = 0x80
	tag, slots := le.Uint32(w[8:])&0xf_ffff, int(w[2])
	le.PutUint32(e[0x1c:], le.Uint32(e[0x1c:])|tag)
	if w[0] != opReceive || slots < 2 || slots > int(queue.size)/slotSize || p.srq == nil && uint64(tag) != index {
		text := "receive %#x has opcode %#x, tag %#x and %d slots"
		p.d.violation(p.name(), text, index, w[0], tag, slots)
		return statusReceiveMem, &failure{statusRemoteOp, peerFormat, "a wrong receive"}
	}
	n := pci.Length(data)
	var list [][]byte
	for rest, i := uint64(n), 2; rest > 0; i++ {
		if i == slots {
			p.d.count(countPeerTooLong)
			return statusReceiveLen, &failure{statusRemoteInvalid, peerTooLong, "the receive is too short"}
		}
		s := w[i*slotSize:]
		part := min(rest, uint64(le.Uint32(s[12:])))
		if part == 0 {
			continue
		}
		var err *accessError
		if list, err = p.memory(list, le.Uint32(s[8:]), localWrite, le.Uint64(s), part); err != nil {
			return statusReceiveMem, &failure{statusRemoteOp, peerMemory, err.text}
		}
		rest -= part
	}
	pci.Transfer(list, data)
	return statusOK, nil
}
