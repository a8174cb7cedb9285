// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"errors"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// mini holds the fields that differ between the completions of a compressed CQE.
type mini struct {
	counter   uint16 // of a request
	opcode    uint8  // of a request
	hash      uint32 // of a receive
	byteCount uint32
}

// putCompressed writes a title and its arrays as the device does. The first array is behind the
// title, the others are in every eighth entry after the title. The rest of the entries stays
// unchanged.
func (r *cqRig) putCompressed(title *mlx5test.CQE, minis []mini) {
	r.t.Helper()
	title.Format, title.ByteCount = 3, uint32(len(minis))
	size := r.dev.CQESize
	start := r.dev.Produced()
	for i := range minis {
		e := make([]byte, size)
		copy(e, r.dev.Buf[int(start+uint32(i))%r.dev.Entries()*size:][:size])
		array := -1
		switch {
		case i == 1:
			array = 0
		case i > 1 && i%8 == 0:
			array = i
		}
		if array >= 0 {
			for k := array; k < min(array+8, len(minis)); k++ {
				b := e[size-64+k%8*8:]
				if title.Opcode == mlx5test.CQEReq {
					binary.BigEndian.PutUint16(b, minis[k].counter)
					b[2] = minis[k].opcode
				} else {
					binary.BigEndian.PutUint32(b, minis[k].hash)
				}
				binary.BigEndian.PutUint32(b[4:], minis[k].byteCount)
			}
			// The array uses the whole entry, so there is no owner byte.
			copy(r.dev.Buf[int(start+uint32(i))%r.dev.Entries()*size:], e)
		}
	}
	// The title comes last, and the device continues behind the last entry. The bits next to
	// the user index have no meaning.
	b := title.Bytes(size)
	b[size-cqeSize+cqeUIdx] = 0xa5
	if !r.dev.Complete(b) {
		r.t.Fatal("Complete: the CQ is full")
	}
	r.dev.SetProduced(start + uint32(len(minis)))
}

func ofCompression(size int, f CompressionFormat) provider.CQConfig {
	return provider.CQConfig{Entries: 31, Vendor: &CQOptions{EntrySize: size, Compression: f}}
}

func TestCompressedReceives(t *testing.T) {
	for _, format := range []CompressionFormat{CompressHash, CompressChecksum, CompressChecksumStride} {
		sizes(t, func(t *testing.T, size int) {
			for n := 2; n <= 32; n++ {
				r := newCQRig(t, ofCompression(size, format))
				q := r.qp(provider.RC, nil)
				other := r.qp(provider.RC, nil)
				id := uint64(0)
				for round := range 5 { // at different positions of the ring
					title := q.recvCQE(uint16(q.rq.head))
					title.Opcode, title.Imm, title.SrcQPN = mlx5test.CQERespImm, 0x12345678, 77
					var minis []mini
					for i := range n {
						q.recvPosted(t, id+uint64(i))
						minis = append(minis, mini{hash: 0xabcd0000 + uint32(i), byteCount: 1000 + uint32(i)})
					}
					r.putCompressed(title, minis)
					if n < 32 {
						r.put(other.sendCQE(other.sendPosted(99, 0), opcodeSend))
					}
					start := r.cq.ci
					wcs := r.poll()
					if len(wcs) != min(n+1, 32) {
						t.Fatalf("%d completions, want %d, round %d", len(wcs), min(n+1, 32), round)
					}
					for i := range n {
						want := provider.WC{ID: id + uint64(i), Opcode: provider.WCRecv, QPNum: q.num, ByteLen: 1000 + uint32(i), ImmData: 0x12345678,
							SrcQP: 77, Flags: provider.WCWithImm, PKeyIndex: 0x5678}
						if wcs[i] != want {
							t.Fatalf("completion %d of %d, round %d = %+v, want %+v", i, n, round, wcs[i], want)
						}
						e := r.cq.entry(start + uint32(i))
						switch hash, sum := load32(e, cqeHash), load16(e, cqeChecksum); {
						case format == CompressHash && hash != 0xabcd0000+uint32(i), format != CompressHash && sum != 0xabcd:
							t.Errorf("format %d, completion %d of %d: hash %#x, checksum %#x, want 0xabcd0000 and the index, or 0xabcd", format, i, n, hash, sum)
						}
					}
					if n < 32 && (wcs[n].ID != 99 || wcs[n].QPNum != other.num) {
						t.Fatalf("completion after %d compressed ones = %+v, want ID 99 of the other QP", n, wcs[n])
					}
					id += uint64(n)
				}
			}
		})
	}
}

// TestCompressedKinds compresses each kind of completion.
func TestCompressedKinds(t *testing.T) {
	for op, want := range map[uint8]provider.WCOpcode{
		mlx5test.CQEReq: provider.WCSend, mlx5test.CQERespWrite: provider.WCRecvWriteImm, mlx5test.CQERespSend: provider.WCRecv,
		mlx5test.CQERespImm: provider.WCRecv, mlx5test.CQERespInv: provider.WCRecv,
	} {
		for _, how := range []string{"poll", "resize", "purge"} {
			r := newCQRig(t, ofCompression(64, CompressHash))
			q, other := r.qp(provider.RC, nil), r.qp(provider.RC, nil)
			title := q.recvCQE(0)
			title.Opcode = op
			var minis []mini
			for i := range uint64(3) {
				q.recvPosted(t, i)
				minis = append(minis, mini{counter: q.sendPosted(i, 0), opcode: opcodeSend})
			}
			r.putCompressed(title, minis)
			switch how {
			case "resize":
				if err := r.cq.Resize(60); err != nil {
					t.Fatalf("CQ.Resize(60): %v", err)
				}
			case "purge":
				r.cq.purgeQP(other)
			}
			wcs := r.poll()
			if len(wcs) != 3 {
				t.Fatalf("opcode %d, %s: completions = %+v, want 3", op, how, wcs)
			}
			for i, wc := range wcs {
				if wc.ID != uint64(i) || wc.Opcode != want {
					t.Errorf("opcode %d, %s: completion = %+v, want ID %d, %v", op, how, wc, i, want)
				}
			}
		}
	}
}

func TestCompressedRequests(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		r := newCQRig(t, ofCompression(size, CompressHash))
		q := r.qp(provider.RC, nil)
		for id := uint64(0); id < 1000; id += 20 {
			var minis []mini
			for i := range uint64(10) {
				q.sendPosted(0, 0) // not signaled
				minis = append(minis, mini{counter: q.sendPosted(id+i, 0), opcode: []uint8{opcodeSend, opcodeRead}[i%2], byteCount: uint32(id + i)})
			}
			r.putCompressed(q.sendCQE(0, 0), minis)
			// Poll the completions with several calls.
			for i := uint64(0); i < 10; {
				wcs := make([]provider.WC, 3)
				n, err := r.cq.Poll(wcs)
				if err != nil {
					t.Fatalf("CQ.Poll: %v", err)
				}
				for _, wc := range wcs[:n] {
					want := provider.WC{ID: id + i, QPNum: q.num}
					if i%2 == 1 {
						want.Opcode, want.ByteLen = provider.WCRead, uint32(id+i)
					}
					if wc != want {
						t.Fatalf("completion = %+v, want %+v", wc, want)
					}
					i++
				}
			}
		}
	})
}

func TestImpossibleCompression(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg   provider.CQConfig
		title func(r *cqRig, q *QP) *mlx5test.CQE
	}{
		"no completion":  {ofCompression(64, CompressHash), func(r *cqRig, q *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: q.index, ByteCount: 0} }},
		"one completion": {ofCompression(64, CompressHash), func(r *cqRig, q *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: q.index, ByteCount: 1} }},
		"more than fit":  {ofCompression(64, CompressHash), func(r *cqRig, q *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: q.index, ByteCount: 33} }},
		"2^32-1":         {ofCompression(128, CompressHash), func(r *cqRig, q *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: q.index, ByteCount: ^uint32(0)} }},
		"of nobody":      {ofCompression(64, CompressHash), func(r *cqRig, q *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: 500, ByteCount: 2} }},
		"of an SRQ": {ofCompression(64, CompressHash), func(r *cqRig, _ *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: r.qp(provider.RC, r.srq(provider.SRQConfig{MaxWR: 3})).index, ByteCount: 2}
		}},
	} {
		r := newStrictRig(t, tc.cfg)
		title := tc.title(r, r.qp(provider.RC, nil))
		title.Format = 3
		r.put(title)
		_, err := r.cq.Poll(make([]provider.WC, 4))
		if bad := new(CQEError); !errors.As(err, &bad) {
			t.Errorf("%s: Poll = %v, want a CQEError", name, err)
		}
	}
}

func TestCompressedAllocates(t *testing.T) {
	r := newCQRig(t, ofCompression(64, CompressHash))
	q := r.qp(provider.RC, nil)
	title := q.recvCQE(0)
	title.Format, title.ByteCount = 3, 20
	b := title.Bytes(64)
	wcs := make([]provider.WC, 20)
	if n := testing.AllocsPerRun(50, func() {
		setCounter(b, uint16(q.rq.head))
		for range 20 {
			q.recvPosted(t, 1)
		}
		start := r.dev.Produced()
		r.dev.Complete(b)
		r.dev.SetProduced(start + 20)
		if n, err := r.cq.Poll(wcs); n != 20 || err != nil {
			t.Fatalf("CQ.Poll = %d, %v, want 20, nil", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestCompressionAsked checks that CREATE_CQ requests compression only with the option, and in
// the format of the option.
func TestCompressionAsked(t *testing.T) {
	for _, f := range []CompressionFormat{0, CompressHash, CompressChecksum, CompressChecksumStride} {
		r := newCQRig(t, ofCompression(64, f))
		want := abi.Mlx5CreateCQ{CQECompEn: min(uint8(f), 1), CQECompResFormat: uint8(f)}
		if c := r.dev.Create; c.CQECompEn != want.CQECompEn || c.CQECompResFormat != want.CQECompResFormat {
			t.Errorf("CREATE_CQ with format %d = %+v, want %+v", f, c, want)
		}
	}
}
