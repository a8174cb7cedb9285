// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"encoding/binary"
	"math/bits"

	"purerdma/provider"
)

// device executes the requests of connected QPs, one after the other, when a test calls run.
type device struct {
	k   *kernel
	qps map[uint32]*deviceQP // by handle
	cqs map[uint32]*deviceCQ
	mrs map[uint32]memory // by key
}

type memory struct {
	iova uint64
	b    []byte
}

type deviceCQ struct {
	ring []byte
	pi   uint32
}

// deviceQP is a QP in the device.
type deviceQP struct {
	num                    uint32
	sq, rq                 []byte
	sendRecord, recvRecord []byte
	sendCQ, recvCQ         *deviceCQ
	peer                   *deviceQP
	sent, received         uint16 // next block and receive to execute
	stopped                bool   // the device ignores doorbells
}

// Statuses of completions.
const (
	statusGeneral = 1
	statusFlushed = 15
)

// cqe is a completion without its owner bit.
type cqe struct {
	op, queue, status uint8
	index             uint16
	qp, imm, size     uint32
}

func (c *deviceCQ) entry(i uint32) []byte { return c.ring[int(i)*blockSize%len(c.ring):][:blockSize] }

func (c *deviceCQ) add(e cqe) {
	b := c.entry(c.pi)
	owner := uint32(0)
	if c.pi&uint32(len(c.ring)/blockSize) == 0 {
		owner = 1 << 31
	}
	binary.BigEndian.PutUint32(b[4:], uint32(e.index))
	binary.BigEndian.PutUint32(b[8:], e.qp)
	binary.LittleEndian.PutUint32(b[12:], e.imm)
	binary.BigEndian.PutUint32(b[16:], e.size)
	binary.BigEndian.PutUint32(b, owner|uint32(e.op)<<16|uint32(e.queue)<<8|uint32(e.status))
	c.pi++
}

// request is a decoded request.
type request struct {
	op, elements  uint8
	inline        bool
	signaled      bool
	index, blocks uint16
	block         [4][]byte
}

func (q *deviceQP) posted() uint16   { return binary.LittleEndian.Uint16(q.sendRecord) }
func (q *deviceQP) receives() uint16 { return binary.LittleEndian.Uint16(q.recvRecord) }

func (q *deviceQP) slot(b []byte, i uint16) []byte { return b[int(i)*blockSize%len(b):][:blockSize] }

// next decodes the next request.
func (q *deviceQP) next() (r request, ok bool) {
	if q.sent == q.posted() {
		return r, false
	}
	head := binary.LittleEndian.Uint64(q.slot(q.sq, q.sent))
	r = request{op: uint8(head >> 27 & 31), elements: uint8(head >> 56), inline: head>>25&1 != 0, signaled: head>>22&1 != 0, index: q.sent, blocks: uint16(head>>52&7) + 1}
	if uint16(head) != q.sent+r.blocks || uint32(head>>32)&0xfffff != q.num || r.blocks > 4 {
		panic("the device has found a malformed request")
	}
	for i := range r.blocks {
		r.block[i] = q.slot(q.sq, q.sent+i)
	}
	return r, true
}

// at returns n bytes of memory, nil if the key or the address is wrong.
func (d *device) at(key uint32, addr uint64, n uint32) []byte {
	m, ok := d.mrs[key]
	if off := addr - m.iova; ok && off <= uint64(len(m.b)) && uint64(len(m.b))-off >= uint64(n) {
		return m.b[off:][:n]
	}
	return nil
}

// copyOut copies the message of a SEND or WRITE to dst, which has its length.
func (d *device) copyOut(r *request, dst []byte, from int) bool {
	if r.inline {
		for len(dst) > 0 {
			n := copy(dst, r.block[from/blockSize][from%blockSize:])
			dst, from = dst[n:], from+n
		}
		return true
	}
	for i := range int(r.elements) {
		e := r.block[(from+16*i)/blockSize][(from+16*i)%blockSize:]
		src := d.at(binary.LittleEndian.Uint32(e[12:]), binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint32(e[8:]))
		if src == nil {
			return false
		}
		dst = dst[copy(dst, src):]
	}
	return true
}

// receive takes a receive of q for a message of n bytes, and returns its memory.
func (d *device) receive(q *deviceQP, n uint32) ([]byte, uint16, bool) {
	if q.received == q.receives() || q.stopped {
		return nil, 0, false
	}
	b := q.slot(q.rq, q.received)
	if binary.LittleEndian.Uint16(b) != q.received+1 || binary.LittleEndian.Uint32(b[4:]) != q.num {
		panic("the device has found a malformed receive")
	}
	i := q.received
	q.received++
	var dst []byte
	if n > 0 && n <= binary.LittleEndian.Uint32(b[24:]) {
		dst = d.at(binary.LittleEndian.Uint32(b[28:]), binary.LittleEndian.Uint64(b[16:]), n)
	}
	return dst, i, true
}

// run executes all requests that can be executed.
func (d *device) run() {
	for _, q := range d.qps {
		for q.peer != nil && !q.stopped {
			r, ok := q.next()
			if !ok || !d.execute(q, &r) {
				break
			}
		}
	}
}

// execute executes a request, and returns false if it must wait for a receive.
func (d *device) execute(q *deviceQP, r *request) bool {
	b, size := r.block[0], uint32(0)
	length := binary.LittleEndian.Uint32(b[12:])
	remote, key := uint64(binary.LittleEndian.Uint32(b[24:]))<<32|uint64(binary.LittleEndian.Uint32(b[20:])), binary.LittleEndian.Uint32(b[16:])
	status := uint8(0)
	switch r.op {
	case opSend, opSendImm, opSendInv:
		dst, i, ok := d.receive(q.peer, length)
		if !ok {
			return false
		}
		e := cqe{queue: queueRecv, op: opReceive, index: i, qp: q.peer.num, size: length}
		switch {
		case length > 0 && (dst == nil || !d.copyOut(r, dst, 16)):
			e.status = 4
		case r.op == opSendImm:
			e.op, e.imm = opRecvSendImm, binary.BigEndian.Uint32(b[8:])
		case r.op == opSendInv:
			// The key is big-endian in the completion.
			e.op, e.imm = opRecvInv, bits.ReverseBytes32(binary.LittleEndian.Uint32(b[8:]))
		}
		q.peer.recvCQ.add(e)
	case opWrite, opWriteImm:
		dst := d.at(key, remote, length)
		if length > 0 && (dst == nil || !d.copyOut(r, dst, 32)) {
			status = statusGeneral
			break
		}
		if r.op == opWriteImm {
			_, i, ok := d.receive(q.peer, 0)
			if !ok {
				return false
			}
			q.peer.recvCQ.add(cqe{queue: queueRecv, op: opRecvImm, index: i, qp: q.peer.num, imm: binary.BigEndian.Uint32(b[8:]), size: length})
		}
	case opRead:
		e := r.block[1]
		src, dst := d.at(binary.LittleEndian.Uint32(e[12:]), binary.LittleEndian.Uint64(e), length), d.at(key, remote, length)
		if src == nil || dst == nil {
			status = statusGeneral
			break
		}
		size = uint32(copy(dst, src))
	case opCompareSwap, opFetchAdd:
		e := r.block[1]
		word := d.at(binary.LittleEndian.Uint32(e[12:]), binary.LittleEndian.Uint64(e), 8)
		dst := d.at(binary.LittleEndian.Uint32(e[28:]), binary.LittleEndian.Uint64(e[16:]), 8)
		old := binary.LittleEndian.Uint64(word)
		copy(dst, word)
		operand := binary.LittleEndian.Uint64(b[16:])
		if r.op == opFetchAdd {
			binary.LittleEndian.PutUint64(word, old+operand)
		} else if old == binary.LittleEndian.Uint64(b[24:]) {
			binary.LittleEndian.PutUint64(word, operand)
		}
	default:
		panic("the device has found an unknown operation")
	}
	q.sent += r.blocks
	if r.signaled || status != 0 {
		q.sendCQ.add(cqe{op: r.op, index: r.index, qp: q.num, size: size, status: status})
	}
	if status != 0 {
		q.flush()
	}
	return true
}

// move moves the QP, which flushes its requests in the error state.
func (q *deviceQP) move(s provider.QPState) {
	if s == provider.QPErr {
		q.flush()
	}
	if s == provider.QPReset {
		q.sent, q.received, q.stopped = 0, 0, false
	}
}

// flush completes the requests that the device has got.
func (q *deviceQP) flush() {
	for !q.stopped {
		r, ok := q.next()
		if !ok {
			break
		}
		q.sent += r.blocks
		q.sendCQ.add(cqe{op: r.op, index: r.index, qp: q.num, status: statusFlushed})
	}
	for !q.stopped && q.received != q.receives() {
		q.recvCQ.add(cqe{op: opReceive, queue: queueRecv, index: q.received, qp: q.num, status: statusFlushed})
		q.received++
	}
	q.stopped = true
}
