// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// device executes the requests of connected QPs, one after the other, when a test calls run. The doorbells of all queues
// are stores to one register. So the device reads the last doorbell of a queue from the queue.
type device struct {
	k    *kernel
	qps  map[uint32]*deviceQP // by handle
	cqs  map[uint32]*deviceCQ
	srqs map[uint32]*deviceSRQ
	mrs  map[uint32]memory // by key
	ctx  *Context

	// Memory that requests use again, because tests count allocations.
	list [][]byte
	msg  []byte
	wqe  []byte
}

type memory struct {
	iova uint64
	b    []byte
}

// deviceCQ is a CQ in the device.
type deviceCQ struct {
	num    uint32
	ring   []byte
	next   []byte // the new ring of a change of the size
	pi     int
	phase  uint32
	toggle []byte
	ended  bool // the kernel has released the old ring
}

// deviceSRQ is an SRQ in the device.
type deviceSRQ struct {
	num    uint32
	ring   []byte
	p      *srq
	ci     int
	epoch  uint64
	toggle []byte
}

// deviceQP is a QP in the device.
type deviceQP struct {
	d              *device
	rc             bool
	num            uint32
	cookie         uint64
	entries, depth int // requests and slots of the send queue
	sq, rq         []byte
	recvs          int
	recvSize       int
	sendCQ, recvCQ *deviceCQ
	srq            *deviceSRQ
	peer           *deviceQP

	index, slot int    // the next request
	epoch       uint64 // of the send queue
	target      int    // index of the send queue in the last doorbell
	seen        [2]uint64
	received    int // the next receive
	recvEpoch   uint64
	stopped     bool
}

// put adds an entry to the CQ.
func (c *deviceCQ) put(kind, status uint8, flags uint16, words [6]uint32, index uint32) {
	b := c.ring[c.pi*cqeSize:][:cqeSize]
	for i, w := range words {
		binary.LittleEndian.PutUint32(b[4*i:], w)
	}
	binary.LittleEndian.PutUint32(b[28:], index)
	word := uint32(flags)<<16 | uint32(status)<<8 | uint32(kind)<<flagType | c.phase
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[24])), endian.Little32(word))
	if c.pi++; c.pi*cqeSize == len(c.ring) {
		c.pi = 0
		c.phase ^= 1
	}
}

// cutOff ends the old ring, and begins the new one.
func (c *deviceCQ) cutOff() {
	c.put(typeCutoff, 0, 0, [6]uint32{}, 0)
	c.ring, c.pi, c.phase = c.next, 0, 1
}

// sendDone adds the completion of a request.
func (q *deviceQP) sendDone(status uint8, cons int) {
	q.sendCQ.put(typeSend, status, 0, [6]uint32{uint32(q.cookie), uint32(q.cookie >> 32), uint32(uint16(cons))}, 0)
}

// recvDone adds the completion of a receive.
func (q *deviceQP) recvDone(status uint8, flags uint16, length, imm, index uint32) {
	kind := uint8(typeRecvRC)
	words := [6]uint32{length, imm, uint32(q.cookie), uint32(q.cookie >> 32)}
	if !q.rc {
		kind = typeRecvUD
		words[5] = 0x4567 << 16
		index |= 0x89 << 24
	}
	if q.srq != nil {
		flags |= 1
	}
	q.recvCQ.put(kind, status, flags, words, index)
}

// terminate stops the QP.
func (q *deviceQP) terminate() {
	if q.stopped {
		return
	}
	q.stopped = true
	for i, c := range []*deviceCQ{q.sendCQ, q.recvCQ} {
		if i == 0 || c != q.sendCQ {
			c.put(typeEnd, 0, 0, [6]uint32{uint32(q.cookie), uint32(q.cookie >> 32), 0xffffffff}, 0)
		}
	}
}

// request is a decoded request.
type request struct {
	op, flags uint8
	head      uint32
	slots     int
	b         []byte
	index     int // slot or request, as the adapter reports a failed request
	next      int // the request behind it
	rc        bool
}

func (q *deviceQP) variable() bool { return q.d.k.chip.variable }

// posted returns the index of the last doorbell.
func (q *deviceQP) posted() int {
	p := q.d.ctx.qps.find(q.cookie)
	words := [2]uint64{p.sq.ring.last}
	if p.sq.push != nil {
		words[1] = p.sq.push.last
	}
	at, size := q.index, q.entries
	if q.variable() {
		at, size = q.slot, q.depth
	}
	for i, w := range words {
		w = endian.Little64(w)
		if w == q.seen[i] || w == 0 {
			continue
		}
		q.seen[i] = w
		kind, num := w>>bellType, uint32(w>>bellNum)&numMask
		if want := []uint64{bellSQ, bellPushEnd}[i]; kind != want || num != q.num&numMask || w&bellValid == 0 {
			panic(fmt.Sprintf("the device has got the doorbell %#x", w))
		}
		if i := int(w & 0xffffff); (i-at+size)%size > (q.target-at+size)%size {
			q.target = i
		}
	}
	return q.target
}

// take decodes the next request.
func (q *deviceQP) take() (r request, ok bool) {
	at := q.index
	if q.variable() {
		at = q.slot
	}
	if q.posted() == at {
		return r, false
	}
	r.head = binary.LittleEndian.Uint32(q.sq[q.slot*16:])
	r.op, r.flags, r.slots, r.index = uint8(r.head), uint8(r.head>>8), int(r.head>>16&0xff), at
	if r.slots < 2 || r.slots > 8 && !q.variable() {
		panic(fmt.Sprintf("the device has found the malformed request %#x", r.head))
	}
	r.b, r.rc = q.d.wqe[:0], q.rc
	for i := range r.slots {
		r.b = append(r.b, q.sq[(q.slot+i)%q.depth*16:][:16]...)
	}
	q.d.wqe = r.b
	used := r.slots
	if !q.variable() {
		used = 8
	}
	q.index = (q.index + 1) % q.entries
	if q.slot += used; q.slot >= q.depth {
		q.slot -= q.depth
		q.epoch ^= bellEpoch
	}
	r.next = q.index
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

// pieces returns the memory of the elements from slot 2 on, or nil if one is wrong.
func (d *device) pieces(b []byte) (list [][]byte, ok bool) {
	list = d.list[:0]
	defer func() { d.list = list }()
	for ; len(b) > 0; b = b[16:] {
		n := binary.LittleEndian.Uint32(b[12:])
		p := d.at(binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b), n)
		if n > 0 && p == nil {
			return nil, false
		}
		list = append(list, p)
	}
	return list, true
}

// message returns the bytes that a request sends.
func (d *device) message(r *request) ([]byte, bool) {
	length := int(binary.LittleEndian.Uint32(r.b[8:]))
	msg := d.msg[:0]
	if !r.rc {
		msg = append(msg, make([]byte, 40)...) // the header of a datagram
		length += 40
	}
	ok := true
	if r.flags&0x10 != 0 {
		msg = append(msg, r.b[32:][:length-len(msg)]...)
	} else {
		var list [][]byte
		list, ok = d.pieces(r.b[32:])
		for _, p := range list {
			msg = append(msg, p...)
		}
	}
	d.msg = msg
	return msg, ok && len(msg) == length
}

// receive takes a receive for a message, and copies it there. It returns the status and the index of the receive.
func (d *device) receive(q *deviceQP, msg []byte, write bool) (status uint8, index uint32, ok bool) {
	if q.stopped {
		return 0, 0, false
	}
	var b []byte
	if s := q.srq; s != nil {
		w := endian.Little64(s.p.ring.last)
		if w>>bellType == bellSRQArm {
			w = s.p.epoch | uint64(s.p.slot) // the doorbell before it
		}
		if s.ci == int(w&0xffffff) && s.epoch == w&bellEpoch {
			return 0, 0, false
		}
		b = s.ring[s.ci*srqSize:][:srqSize]
		if s.ci++; s.ci*srqSize == len(s.ring) {
			s.ci, s.epoch = 0, s.epoch^bellEpoch
		}
	} else {
		w := endian.Little64(d.ctx.qps.find(q.cookie).rq.ring.last)
		if q.received == int(w&0xffffff) && q.recvEpoch == w&bellEpoch {
			return 0, 0, false
		}
		if w>>bellType != bellRQ || w&bellValid == 0 || uint32(w>>bellNum)&numMask != q.num&numMask {
			panic(fmt.Sprintf("the device has got the doorbell %#x", w))
		}
		b = q.rq[q.received*q.recvSize:][:q.recvSize]
		if q.received++; q.received == q.recvs {
			q.received, q.recvEpoch = 0, q.recvEpoch^bellEpoch
		}
	}
	slots := int(binary.LittleEndian.Uint32(b) >> 16 & 0xff)
	if b[0] != opReceive || slots < 2 || slots*16 > len(b) || q.srq == nil && slots < 3 {
		panic(fmt.Sprintf("the device has found the malformed receive %x", b))
	}
	index = binary.LittleEndian.Uint32(b[8:])
	if write {
		return 0, index, true
	}
	list, good := d.pieces(b[32 : 16*slots])
	for _, p := range list {
		msg = msg[copy(p, msg):]
	}
	if !good || len(msg) > 0 {
		return 2, index, true // local length error
	}
	return 0, index, true
}

// run executes all requests that can be executed.
func (d *device) run() {
	for _, q := range d.qps {
		for q.peer != nil && !q.stopped && q.peer.d.qps != nil {
			saved := *q
			r, ok := q.take()
			if !ok {
				break
			}
			if !d.execute(q, &r) {
				target, seen := q.target, q.seen
				*q = saved
				q.target, q.seen = target, seen
				break
			}
		}
	}
}

// execute executes a request, and returns false if it must wait for a receive.
func (d *device) execute(q *deviceQP, r *request) bool {
	imm := binary.LittleEndian.Uint32(r.b[4:])
	remote, key := binary.LittleEndian.Uint64(r.b[16:]), binary.LittleEndian.Uint32(r.b[24:])
	status := uint8(0)
	deliver := func(flags uint16, msg []byte, write bool) bool {
		st, i, ok := d.receive(q.peer, msg, write)
		if !ok {
			return false
		}
		q.peer.recvDone(st, flags, uint32(len(msg)), imm, i)
		if st != 0 {
			status = 8
			q.peer.terminate()
		}
		return true
	}
	switch r.op {
	case opSend, opSendImm, opSendInv:
		msg, good := d.message(r)
		if !good {
			status = 4
			break
		}
		flags := uint16(0)
		switch r.op {
		case opSendImm:
			flags = 2
		case opSendInv:
			flags = 4
		}
		if !deliver(flags, msg, false) {
			return false
		}
	case opWrite, opWriteImm:
		msg, good := d.message(r)
		dst := d.at(key, remote, uint32(len(msg)))
		if !good || len(msg) > 0 && dst == nil {
			status = 7
			break
		}
		if r.op == opWriteImm && !deliver(2|8, msg, true) {
			return false
		}
		copy(dst, msg)
	case opRead:
		list, good := d.pieces(r.b[32:])
		src := d.at(key, remote, binary.LittleEndian.Uint32(r.b[8:]))
		if !good || src == nil {
			status = 7
			break
		}
		for _, p := range list {
			src = src[copy(p, src):]
		}
	case opCompareSwap, opFetchAdd:
		list, good := d.pieces(r.b[32:])
		word := d.at(imm, binary.LittleEndian.Uint64(r.b[8:]), 8)
		if !good || word == nil {
			status = 7
			break
		}
		old, operand := binary.LittleEndian.Uint64(word), remote
		copy(list[0], word)
		if r.op == opFetchAdd {
			binary.LittleEndian.PutUint64(word, old+operand)
		} else if old == binary.LittleEndian.Uint64(r.b[24:]) {
			binary.LittleEndian.PutUint64(word, operand)
		}
	default:
		panic(fmt.Sprintf("the device has found the unknown operation %#x", r.op))
	}
	switch {
	case status == 0:
		if r.flags&1 != 0 {
			q.sendDone(0, r.next)
		}
		return true
	case q.variable():
		q.sendDone(status, r.index)
	default:
		q.sendDone(status, r.next)
	}
	q.terminate()
	return true
}

// move moves the QP.
func (q *deviceQP) move(s provider.QPState) {
	switch s {
	case provider.QPErr:
		q.terminate()
	case provider.QPReset:
		q.index, q.slot, q.target, q.received, q.stopped, q.seen = 0, 0, 0, 0, false, [2]uint64{}
		// The epochs go on, as in libbnxt_re.
	}
}
