// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

var _ provider.Builder = (*QP)(nil)

// The methods below build, for connected transports, what has one block or is
// inline; everything else goes to BatchAdd.

// BatchWrite builds an RDMA WRITE of one element.
func (q *QP) BatchWrite(id uint64, flags provider.SendFlags, local provider.SGE, remote uint64, rkey uint32) error {
	s := &q.sq
	b := &s.batch
	if b.head-b.seen >= b.limit || int32(local.Length) <= 0 {
		return q.addElement(id, flags, local, remote, rkey, provider.OpWrite)
	}
	cur := s.cur
	at := cur & s.mask
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	put64(wqe, uint64(uint16(cur))<<40|opcodeWrite<<32|uint64(s.num|3))
	put64(unsafe.Add(wqe, 8), uint64(uint32(ctrlFlags[flags&7])|s.signal)<<32)
	put64(unsafe.Add(wqe, 16), remote)
	put64(unsafe.Add(wqe, 24), uint64(rkey)<<32)
	putData(unsafe.Add(wqe, 32), local.Length, local.LKey, local.Addr)
	s.note(cur, id, 1)
	return nil
}

// BatchSend builds a SEND of one element.
func (q *QP) BatchSend(id uint64, flags provider.SendFlags, local provider.SGE) error {
	s := &q.sq
	b := &s.batch
	if b.head-b.seen >= b.limit || int32(local.Length) <= 0 {
		return q.addElement(id, flags, local, 0, 0, provider.OpSend)
	}
	cur := s.cur
	at := cur & s.mask
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	put64(wqe, uint64(uint16(cur))<<40|opcodeSend<<32|uint64(s.num|2))
	put64(unsafe.Add(wqe, 8), uint64(uint32(ctrlFlags[flags&7])|s.signal)<<32)
	putData(unsafe.Add(wqe, 16), local.Length, local.LKey, local.Addr)
	s.note(cur, id, 1)
	return nil
}

// BatchSendInline builds a SEND of inline data.
func (q *QP) BatchSendInline(id uint64, flags provider.SendFlags, data []byte) error {
	s := &q.sq
	b := &s.batch
	if b.head-b.seen >= b.limit || len(data) > int(s.maxInline) {
		return q.addInline(id, flags, data, 0, 0, provider.OpSend)
	}
	cur := s.cur
	at := cur & s.mask
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	ds := 1 + s.putInline(unsafe.Add(wqe, segment), data)
	put64(wqe, uint64(uint16(cur))<<40|opcodeSend<<32|uint64(s.num|ds))
	put64(unsafe.Add(wqe, 8), uint64(uint32(ctrlFlags[flags&7])|s.signal)<<32)
	s.note(cur, id, (ds+3)>>2)
	return nil
}

// BatchWriteInline builds an RDMA WRITE of inline data.
func (q *QP) BatchWriteInline(id uint64, flags provider.SendFlags, data []byte, remote uint64, rkey uint32) error {
	s := &q.sq
	b := &s.batch
	if b.head-b.seen >= b.limit || len(data) > int(s.maxInline) {
		return q.addInline(id, flags, data, remote, rkey, provider.OpWrite)
	}
	cur := s.cur
	at := cur & s.mask
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	ds := 2 + s.putInline(unsafe.Add(wqe, 2*segment), data)
	put64(wqe, uint64(uint16(cur))<<40|opcodeWrite<<32|uint64(s.num|ds))
	put64(unsafe.Add(wqe, 8), uint64(uint32(ctrlFlags[flags&7])|s.signal)<<32)
	put64(unsafe.Add(wqe, 16), remote)
	put64(unsafe.Add(wqe, 24), uint64(rkey)<<32)
	s.note(cur, id, (ds+3)>>2)
	return nil
}

// BatchFlag sets flags of the request that was built last.
func (q *QP) BatchFlag(flags provider.SendFlags) {
	s := &q.sq
	if s.batch.head == s.head {
		return
	}
	// The third word's last byte. A fence takes the place of the small one.
	p := (*uint8)(unsafe.Add(s.buf, uintptr(s.batch.last&s.mask)*wqebb+11))
	if flags&provider.SendFence != 0 {
		*p &^= ctrlSmallFence
	}
	*p |= ctrlFlags[flags&7]
}

// note notes a WQE that begins with block cur, and moves the batch on.
func (s *sendQueue) note(cur uint32, id uint64, blocks uint32) {
	b := &s.batch
	e := s.at(cur)
	e.id, e.head = id, b.head
	b.last = cur
	b.head++
	s.cur = cur + blocks
}

// addElement builds a request of one element by BatchAdd.
//
//go:noinline
func (q *QP) addElement(id uint64, flags provider.SendFlags, local provider.SGE, remote uint64, rkey uint32, op provider.SendOpcode) error {
	sg := &q.sq.batch.sg
	sg[0] = local
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: op, Flags: flags, RemoteAddr: remote, RKey: rkey, SGList: sg[:]})
}

// addInline builds a request of inline data by BatchAdd.
//
//go:noinline
func (q *QP) addInline(id uint64, flags provider.SendFlags, data []byte, remote uint64, rkey uint32, op provider.SendOpcode) error {
	if data == nil {
		data = []byte{}
	}
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: op, Flags: flags, RemoteAddr: remote, RKey: rkey, InlineData: data})
}
