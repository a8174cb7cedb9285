// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"testing"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
	"purerdma/provider/mlx5/mlx5test"
)

// pattern returns n different bytes.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(0xa0 + i)
	}
	return b
}

// formats returns the sizes of the data in a CQE of the given size, by format.
func formats(size int) map[uint8]int {
	if size == 128 {
		return map[uint8]int{1: 32, 2: 64}
	}
	return map[uint8]int{1: 32}
}

func TestScatterReceive(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofSize(size))
		r.cq.ethernet = false // the provider then takes more fields from the CQE
		q := r.qp(provider.RC, nil)
		srq := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 3})
		onSRQ := r.qp(provider.RC, srq)
		lkey, mem := r.region(4096, 0x600000000000)
		// When several receives of one QP complete, a separate loop decodes the second and
		// later ones if the first element takes all data.
		for format, most := range formats(size) {
			for _, on := range []*QP{q, onSRQ} {
				for i := range 2 * (most + 1) {
					n, first := i/2, 7
					if i%2 == 1 {
						first = n
					}
					sg := []provider.SGE{{Addr: 0x600000000000, Length: uint32(first), LKey: lkey}, {LKey: lkey}, {Addr: 0x600000000100, Length: 1000, LKey: lkey}}
					clear(mem)
					var e *mlx5test.CQE
					if on.srq != nil {
						e = on.recvCQE(r.postSRQ(srq, 5, sg...))
					} else {
						e = on.recvCQE(on.recvPosted(t, 5, sg...))
					}
					e.Format, e.ByteCount, e.Data = format, uint32(n), pattern(n)
					// The first 32 bytes of the CQE are data, not fields.
					want := provider.WC{ID: 5, Opcode: provider.WCRecv, QPNum: on.num, ByteLen: uint32(n)}
					r.put(e)
					if got := r.one(); got != want {
						t.Fatalf("completion with %d bytes = %+v, want %+v", n, got, want)
					}
					wantMem := make([]byte, 4096)
					k := copy(wantMem[:first], pattern(n))
					copy(wantMem[0x100:], pattern(n)[k:])
					if !bytes.Equal(mem, wantMem) {
						t.Fatalf("format %d, %d bytes: memory = % x ... % x, want the pattern in the elements", format, n, mem[:8], mem[0x100:0x140])
					}
				}
			}
		}
	})
}

// headers counts the segments before the remote address, by transport.
var headers = map[transport]int{transportConnected: 1, transportXRC: 2, transportDC: 4, transportUD: 4}

// readWQE writes a READ or an atomic with data segments into the send queue, and records it as
// posted.
func (q *QP) readWQE(opcode uint8, id uint64, sg ...provider.SGE) uint16 {
	index := uint16(q.sq.cur)
	seg := headers[q.sq.transport] + 1
	if opcode != opcodeRead {
		seg++
	}
	at := func(i int) unsafe.Pointer {
		return unsafe.Add(q.sq.buf, (uint32(index)*wqebb+uint32(i)*segment)&((q.sq.mask+1)*wqebb-1))
	}
	store32(at(0), 0, uint32(index)<<8|uint32(opcode))
	store32(at(0), 4, uint32(seg+len(sg)))
	for i := range sg {
		putData(at(seg+i), sg[i].Length, sg[i].LKey, sg[i].Addr)
	}
	*q.sq.entry(uint32(index)) = pendingWR{id: id, head: q.sq.head}
	q.sq.cur += uint32(seg+len(sg)+3) / 4
	spin.StoreRelease(&q.sq.head, q.sq.head+1)
	return index
}

func TestScatterRead(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofSize(size))
		// In the large ring, the index of a WQE has more than 8 bits.
		rings := []*QP{r.qp(provider.RC, nil), r.qpOf(provider.RC, nil, 512)}
		lkey, mem := r.region(4096, 0x1000)
		// 6 data segments of 11 bytes take 2 blocks, so that some requests wrap around.
		var sg []provider.SGE
		for i := range uint64(6) {
			sg = append(sg, provider.SGE{Addr: 0x1000 + i*0x100, Length: 11, LKey: lkey})
		}
		for format, most := range formats(size) {
			for id := range uint64(400) {
				q := rings[id%2]
				q.sq.transport = []transport{transportConnected, transportXRC, transportDC}[id%3]
				n := int(id) % (most + 1)
				clear(mem)
				q.sq.cur += uint32(id) % 3 // the READs are at all positions
				e := q.sendCQE(q.readWQE(opcodeRead, id, sg...), opcodeRead)
				e.Format, e.ByteCount, e.Data = format, uint32(n), pattern(n)
				r.put(e)
				want := provider.WC{ID: id, Opcode: provider.WCRead, QPNum: q.num, ByteLen: uint32(n)}
				if got := r.one(); got != want {
					t.Fatalf("completion with %d bytes = %+v, want %+v", n, got, want)
				}
				for i, b := range pattern(n) {
					if at := i/11*0x100 + i%11; mem[at] != b {
						t.Fatalf("format %d, %d bytes: byte %d = %#x, want the pattern", format, n, i, mem[at])
					}
				}
			}
		}
		for _, op := range []uint8{opcodeAtomicCS, opcodeAtomicFA, opcodeAtomicCS} {
			clear(mem)
			q := rings[0]
			q.sq.transport = (q.sq.transport + 1) % transportUD
			e := q.sendCQE(q.readWQE(op, 1, provider.SGE{Addr: 0x1008, Length: 8, LKey: lkey}), op)
			e.Format, e.Data = 1, pattern(8)
			r.put(e)
			if got := r.one(); got.Status != 0 || got.ByteLen != 8 || !bytes.Equal(mem[:24], append(make([]byte, 8), append(pattern(8), make([]byte, 8)...)...)) {
				t.Errorf("atomic %#x: completion %+v with memory % x, want success with the 8 bytes at offset 8", op, got, mem[:24])
			}
		}
	})
}

func TestScatterRefused(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q, ud := r.qp(provider.RC, nil), r.qp(provider.UD, nil)
	lkey, mem := r.region(4096, 0x1000)
	sge := func(addr uint64, n uint32) provider.SGE { return provider.SGE{Addr: addr, Length: n, LKey: lkey} }
	clear(mem)
	for name, tc := range map[string]struct {
		cqe  *mlx5test.CQE
		n    uint32
		want provider.WCStatus
	}{
		"key of nobody":       {q.recvCQE(q.recvPosted(t, 7, provider.SGE{Addr: 0x1000, Length: 8, LKey: 5})), 8, provider.WCLocProtErr},
		"before the region":   {q.recvCQE(q.recvPosted(t, 7, sge(0xfff, 8))), 8, provider.WCLocProtErr},
		"beyond the region":   {q.recvCQE(q.recvPosted(t, 7, sge(0x1ff9, 8))), 8, provider.WCLocProtErr},
		"around the end":      {q.recvCQE(q.recvPosted(t, 7, sge(^uint64(0), 8))), 8, provider.WCLocProtErr},
		"more than posted":    {q.recvCQE(q.recvPosted(t, 7, sge(0x2000-4, 4))), 8, provider.WCLocLenErr},
		"no elements":         {q.recvCQE(q.recvPosted(t, 7)), 1, provider.WCLocLenErr},
		"more than a CQE has": {q.recvCQE(q.recvPosted(t, 7, sge(0x1000, 100))), 33, provider.WCGeneralErr},
		"2^32-1 bytes":        {q.recvCQE(q.recvPosted(t, 7, sge(0x1000, 100))), ^uint32(0), provider.WCGeneralErr},
		"request of UD":       {ud.sendCQE(ud.readWQE(opcodeRead, 7, sge(0x1000, 8)), opcodeRead), 8, provider.WCGeneralErr},
		"WRITE":               {q.sendCQE(q.readWQE(opcodeWrite, 7), opcodeWrite), 8, provider.WCRemInvReqErr},
		"READ of more":        {q.sendCQE(q.readWQE(opcodeRead, 7, sge(0x1ffc, 4)), opcodeRead), 8, provider.WCLocLenErr},
		"READ of 33":          {q.sendCQE(q.readWQE(opcodeRead, 7, sge(0x1000, 100)), opcodeRead), 33, provider.WCGeneralErr},
		"READ to nobody":      {q.sendCQE(q.readWQE(opcodeRead, 7, provider.SGE{Length: 9}), opcodeRead), 8, provider.WCLocProtErr},
	} {
		for _, last := range []uint8{fastNone, fastRecv} { // the kind of the previous completion
			r.cq.find(q.index)
			r.cq.fast = last
			// Completions must come in the order of posting, or they would be invalid.
			q.rq.tail, q.sq.tail, ud.sq.tail = 0, 0, 0
			q.rq.tail = uint32(tc.cqe.WQECounter)
			tc.cqe.Format, tc.cqe.ByteCount = 1, tc.n
			r.put(tc.cqe)
			got := r.one()
			want := provider.WC{ID: 7, Status: tc.want, QPNum: 0xabc00 + tc.cqe.UserIndex}
			if got != want {
				t.Errorf("%s: completion = %+v, want %+v", name, got, want)
			}
		}
	}
	for i, b := range mem[:4092] {
		if b != 0 {
			t.Fatalf("byte %d was written", i)
		}
	}
	// A CQE claims 64 bytes of data before it, but its entries have no room for them.
	e := q.recvCQE(uint16(q.rq.tail))
	e.WQECounter = q.recvPosted(t, 8, sge(0x1000, 100))
	q.rq.tail = uint32(e.WQECounter)
	b := e.Bytes(64)
	b[63] |= 2 << 2
	r.dev.Complete(b)
	if got := r.one(); got.Status != provider.WCGeneralErr || got.ID != 8 {
		t.Errorf("cqRig.one() = %+v, want Status WCGeneralErr, ID 8", got)
	}
}

// TestScatterDumped scatters data to the key whose memory discards all data.
func TestScatterDumped(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	r.ctx.caps.dumpFillMKey = 0x1234
	q := r.qp(provider.RC, nil)
	lkey, mem := r.region(64, 0)
	e := q.recvCQE(q.recvPosted(t, 7, provider.SGE{Addr: 99, Length: 4, LKey: 0x1234}, provider.SGE{Addr: 0, Length: 4, LKey: lkey}))
	e.Format, e.ByteCount, e.Data = 1, 8, pattern(8)
	r.put(e)
	if got := r.one(); got.Status != provider.WCSuccess || !bytes.Equal(mem[:8], append(pattern(8)[4:], 0, 0, 0, 0)) {
		t.Errorf("completion %+v with memory % x, want success without the first 4 bytes", got, mem[:8])
	}
}
