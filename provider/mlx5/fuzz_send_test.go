// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
	"purerdma/provider/mlx5/mlx5test"
)

// FuzzSend posts arbitrary requests to a QP of each transport. An accepted request changes only
// the blocks that the record then counts. A refused request changes no blocks that the device
// reads.
func FuzzSend(f *testing.F) {
	f.Add([]byte{0, 2, 2, 1, 0, 0, 0, 64})
	f.Add([]byte{1, 7, 7, 0, 255, 3, 9, 9, 9, 9})
	f.Add(bytes.Repeat([]byte{3, 10, 6, 200, 127}, 40))
	r := newSendRig(f, wantsHeaders)
	to := r.ah(provider.AHAttr{Port: 1, Global: true})
	type target struct {
		q   *QP
		dev *mlx5test.QP
	}
	var all []target
	for _, typ := range []provider.QPType{provider.RC, provider.UC, provider.UD, provider.XRCSend, provider.RawPacket} {
		cfg := r.config(typ)
		cfg.MaxLSOHeader = 100
		q, dev := r.qp(cfg)
		all = append(all, target{q, dev})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &source{data}
		x := all[int(in.byte())%len(all)]
		q, dev := x.q, x.dev
		fillWith(dev.SQ, 0xcc)
		if len(dev.RQ) > 0 {
			fillWith(dev.RQ, 0xdd)
		}
		wr := in.request(to)
		before := dev.SendCounter()
		spin.StoreRelease(&q.sq.tail, q.sq.head)
		n, err := q.PostSend([]provider.SendWR{wr})
		blocks := int(dev.SendCounter() - before)
		switch {
		case (n == 1) != (err == nil), n == 1 && (blocks == 0 || blocks > q.sq.slot()), n == 0 && blocks != 0:
			t.Fatalf("PostSend(%+v) = %d, %v with %d new blocks in the record", wr, n, err, blocks)
		case n == 1:
			if d := dev.SendAt(before); d.Index != before || d.QPN != q.Num() || (len(d.Bytes)+wqebb-1)/wqebb != blocks {
				t.Fatalf("PostSend(%+v): WQE % x in %d blocks does not match the record", wr, d.Bytes, blocks)
			}
		default:
			// The provider may have overwritten a free slot, which the next request takes.
			blocks = q.sq.slot()
		}
		for i := range len(dev.SQ) / wqebb {
			if at := int(before) + i; i >= blocks && !bytes.Equal(dev.SendWQE(uint16(at), wqebb), bytes.Repeat([]byte{0xcc}, wqebb)) {
				t.Fatalf("PostSend(%+v) wrote block %d after the first, want only %d blocks", wr, i, blocks)
			}
		}
		if !bytes.Equal(dev.RQ, bytes.Repeat([]byte{0xdd}, len(dev.RQ))) {
			t.Fatalf("PostSend(%+v) wrote to the receive queue", wr)
		}
	})
}

// slot returns the number of blocks of the largest request.
func (s *sendQueue) slot() int { return int(s.mask+1) / int(s.maxPost) }

// source derives values from fuzzed bytes, and zeros when they are used up.
type source struct{ b []byte }

func (s *source) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

func (s *source) bytes(n int) []byte {
	b := make([]byte, n)
	s.b = s.b[copy(b, s.b):]
	return b
}

func (s *source) uint32() uint32 { return binary.LittleEndian.Uint32(s.bytes(4)) }
func (s *source) uint64() uint64 { return binary.LittleEndian.Uint64(s.bytes(8)) }

// request derives a request whose fields are likely to have an effect.
func (s *source) request(to provider.AH) provider.SendWR {
	wr := provider.SendWR{Opcode: provider.SendOpcode(s.byte()), Flags: provider.SendFlags(s.byte()), ID: 1}
	if s.byte()%8 == 0 {
		wr.Opcode |= provider.SendOpcode(s.uint32())
	}
	shape := s.byte()
	if shape&1 != 0 {
		wr.InlineData = s.bytes(int(s.byte()) + int(s.byte()&1)*256)
	}
	if shape&2 != 0 {
		wr.AH = holder{to}
	}
	if shape&4 != 0 {
		wr.Header = s.bytes(int(s.byte()) % 120)
		wr.MSS = uint16(s.uint32())
	}
	if shape&8 != 0 {
		wr.Bind = &provider.MWBindInfo{Type: provider.MWType(s.byte() % 4), MW: s.uint32(), RKey: s.uint32(), Addr: s.uint64(), Length: s.uint64() >> (s.byte() % 64), Access: provider.Access(s.uint32())}
	}
	for range s.byte() % 6 {
		wr.SGList = append(wr.SGList, provider.SGE{Addr: s.uint64(), Length: s.uint32() >> (s.byte() % 32), LKey: s.uint32()})
	}
	wr.RemoteAddr, wr.RKey, wr.RemoteQPN, wr.RemoteSRQN = s.uint64()&^7, s.uint32(), s.uint32()>>8, s.uint32()>>8
	wr.ImmData, wr.InvalidateRKey, wr.CompareAdd, wr.Swap = s.uint32(), s.uint32(), s.uint64(), s.uint64()
	return wr
}
