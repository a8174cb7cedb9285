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
	if s.batch.head == s.batch.until || local.Length-1 >= s.quick.sge {
		return q.addElement(id, flags, local, remote, rkey, provider.OpWrite)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	w[0] = be64(s.quick.write + 3 + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = be64(remote)
	w[3] = be64(uint64(rkey) << 32)
	w[4] = be64(uint64(local.Length)<<32 | uint64(local.LKey))
	w[5] = be64(local.Addr)
	s.note(id, at, cur+1)
	return nil
}

// BatchSend builds a SEND of one element.
func (q *QP) BatchSend(id uint64, flags provider.SendFlags, local provider.SGE) error {
	s := &q.sq
	if s.batch.head == s.batch.until || local.Length-1 >= s.quick.sge {
		return q.addElement(id, flags, local, 0, 0, provider.OpSend)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	w[0] = be64(s.quick.send + 2 + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = be64(uint64(local.Length)<<32 | uint64(local.LKey))
	w[3] = be64(local.Addr)
	s.note(id, at, cur+1)
	return nil
}

// BatchSendInline builds a SEND of inline data.
func (q *QP) BatchSendInline(id uint64, flags provider.SendFlags, data []byte) error {
	s := &q.sq
	if s.batch.head == s.batch.until || uint(len(data)-1) >= uint(s.quick.inline) {
		return q.addInline(id, flags, data, 0, 0, provider.OpSend)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	ds := 1 + s.putInline(unsafe.Pointer(&w[2]), data)
	w[0] = be64(s.quick.send + uint64(ds) + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	s.note(id, at, cur+(ds+3)>>2)
	return nil
}

// BatchWriteInline builds an RDMA WRITE of inline data.
func (q *QP) BatchWriteInline(id uint64, flags provider.SendFlags, data []byte, remote uint64, rkey uint32) error {
	s := &q.sq
	if s.batch.head == s.batch.until || uint(len(data)-1) >= uint(s.quick.inline) {
		return q.addInline(id, flags, data, remote, rkey, provider.OpWrite)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	ds := 2 + s.putInline(unsafe.Pointer(&w[4]), data)
	w[0] = be64(s.quick.write + uint64(ds) + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = be64(remote)
	w[3] = be64(uint64(rkey) << 32)
	s.note(id, at, cur+(ds+3)>>2)
	return nil
}

// BatchFlag sets flags of the request that was built last.
func (q *QP) BatchFlag(flags provider.SendFlags) {
	s := &q.sq
	if s.batch.head == s.head {
		return
	}
	// The third word's last byte. A fence takes the place of the small one.
	p := (*uint8)(unsafe.Add(s.buf, uintptr(s.batch.last)*wqebb+11))
	if flags&provider.SendFence != 0 {
		*p &^= ctrlSmallFence
	}
	*p |= ctrlFlags[flags&7]
}

// note notes request number head, whose WQE begins with block at of the ring and ends
// before block next.
func (s *sendQueue) note(id uint64, at, next uint32) {
	e := (*sent)(unsafe.Add(unsafe.Pointer(s.sent), uintptr(at)*unsafe.Sizeof(sent{})))
	e.id = id
	e.head = s.batch.head
	s.batch.head++
	s.batch.last = at
	s.cur = next
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
