// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

var _ provider.BatchBuilder = (*QP)(nil)

// The methods below are for connected transports. They build requests of one block and requests
// with inline data. All other requests go to BatchAdd.

// BatchWrite builds an RDMA WRITE of one element.
func (q *QP) BatchWrite(id uint64, local provider.SGE, remote provider.RemoteMemory, flags provider.SendFlags) error {
	s := &q.sq
	if s.batch.head == s.batch.until || local.Length-1 >= s.fast.sge || uint64(local.Length) > remote.Length {
		return q.addWrite(id, local, remote, flags)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	w[0] = endian.Big64(s.fast.write + 3 + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = endian.Big64(remote.Addr)
	w[3] = endian.Big64(uint64(remote.RKey) << 32)
	w[4] = endian.Big64(uint64(local.Length)<<32 | uint64(local.LKey))
	w[5] = endian.Big64(local.Addr)
	s.tally(provider.OpWrite, uint64(local.Length))
	s.record(id, at, cur+1)
	return nil
}

// BatchSend builds a SEND of one element.
func (q *QP) BatchSend(id uint64, local provider.SGE, flags provider.SendFlags) error {
	s := &q.sq
	if s.batch.head == s.batch.until || local.Length-1 >= s.fast.sge {
		return q.addSend(id, local, flags)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	w[0] = endian.Big64(s.fast.send + 2 + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = endian.Big64(uint64(local.Length)<<32 | uint64(local.LKey))
	w[3] = endian.Big64(local.Addr)
	s.tally(provider.OpSend, uint64(local.Length))
	s.record(id, at, cur+1)
	return nil
}

// BatchSendInline builds a SEND of inline data.
func (q *QP) BatchSendInline(id uint64, data []byte, flags provider.SendFlags) error {
	s := &q.sq
	if s.batch.head == s.batch.until || uint(len(data)-1) >= uint(s.fast.inline) {
		return q.addSendInline(id, data, flags)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	ds := 1 + s.putInline(unsafe.Pointer(&w[2]), data)
	w[0] = endian.Big64(s.fast.send + uint64(ds) + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	s.tally(provider.OpSend, uint64(len(data)))
	s.record(id, at, cur+(ds+3)>>2)
	return nil
}

// BatchWriteInline builds an RDMA WRITE of inline data.
func (q *QP) BatchWriteInline(id uint64, data []byte, remote provider.RemoteMemory, flags provider.SendFlags) error {
	s := &q.sq
	if s.batch.head == s.batch.until || uint(len(data)-1) >= uint(s.fast.inline) || uint64(len(data)) > remote.Length {
		return q.addWriteInline(id, data, remote, flags)
	}
	cur := s.cur
	at := cur & s.mask
	w := (*block)(unsafe.Add(s.buf, uintptr(at)*wqebb))
	ds := 2 + s.putInline(unsafe.Pointer(&w[4]), data)
	w[0] = endian.Big64(s.fast.write + uint64(ds) + uint64(uint16(cur))<<40)
	w[1] = s.flags[flags&7]
	w[2] = endian.Big64(remote.Addr)
	w[3] = endian.Big64(uint64(remote.RKey) << 32)
	s.tally(provider.OpWrite, uint64(len(data)))
	s.record(id, at, cur+(ds+3)>>2)
	return nil
}

// record records request number head, whose WQE begins with block at of the ring and ends
// before block next.
func (s *sendQueue) record(id uint64, at, next uint32) {
	e := (*pendingWR)(unsafe.Add(unsafe.Pointer(s.pending), uintptr(at)*unsafe.Sizeof(pendingWR{})))
	e.id = id
	spin.StoreRelease(&e.head, s.batch.head)
	s.batch.head++
	s.batch.last = at
	s.cur = next
}

// The methods below build the other requests of a Builder, by BatchAdd.

//go:noinline
func (q *QP) addWrite(id uint64, local provider.SGE, remote provider.RemoteMemory, flags provider.SendFlags) error {
	if uint64(local.Length) > remote.Length {
		return provider.ErrRemoteLength
	}
	sg := &q.sq.batch.sg
	sg[0] = local
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: provider.OpWrite, Flags: flags, RemoteAddr: remote.Addr, RKey: remote.RKey, SGList: sg[:]})
}

//go:noinline
func (q *QP) addSend(id uint64, local provider.SGE, flags provider.SendFlags) error {
	sg := &q.sq.batch.sg
	sg[0] = local
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: provider.OpSend, Flags: flags, SGList: sg[:]})
}

//go:noinline
func (q *QP) addWriteInline(id uint64, data []byte, remote provider.RemoteMemory, flags provider.SendFlags) error {
	if uint64(len(data)) > remote.Length {
		return provider.ErrRemoteLength
	}
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: provider.OpWrite, Flags: flags, RemoteAddr: remote.Addr, RKey: remote.RKey, InlineData: present(data)})
}

//go:noinline
func (q *QP) addSendInline(id uint64, data []byte, flags provider.SendFlags) error {
	return q.BatchAdd(&provider.SendWR{ID: id, Opcode: provider.OpSend, Flags: flags, InlineData: present(data)})
}

// present returns data, and an empty slice for a nil one, because a nil slice would mean no inline
// data.
func present(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
