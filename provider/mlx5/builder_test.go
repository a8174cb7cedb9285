// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// TestBuilder posts random requests, once as whole requests and once built from their parts,
// and discards some requests before. Rings, records and registers must be equal.
func TestBuilder(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.RC)
	one, devOne := r.qp(cfg)
	two, devTwo := r.qp(cfg)
	two.sq.setNum(one.num)
	rnd := rand.New(rand.NewPCG(1, 2))
	var want provider.QPStats
	for round := range 2000 {
		if round%3 == 0 {
			discard(t, rnd, one, two)
		}
		fillWith(devOne.SQ, 0xcc)
		fillWith(devTwo.SQ, 0xcc)
		fillWith(devOne.UAR.Mem, 0xee)
		fillWith(devTwo.UAR.Mem, 0xee)
		wrs := make([]provider.SendWR, 1+rnd.IntN(8))
		two.BatchBegin()
		for i := range wrs {
			wrs[i] = randomRequest(rnd)
			if err := addParts(two, &wrs[i]); err != nil {
				t.Fatalf("addParts: %v", err)
			}
		}
		post(t, one, wrs...)
		if round%5 == 0 {
			two.BatchDiscard()
			post(t, two, wrs...)
		} else if err := two.BatchPost(); err != nil {
			t.Fatalf("QP.BatchPost: %v", err)
		}
		if !bytes.Equal(devOne.SQ, devTwo.SQ) || !bytes.Equal(devOne.DB, devTwo.DB) {
			t.Fatalf("round %d: rings differ:\n% x\n% x", round, devOne.SQ, devTwo.SQ)
		}
		// The two registers may be in one page.
		want.Doorbells++
		for i := range wrs {
			want.Sends[wrs[i].Opcode].Add(sizeOf(&wrs[i]))
		}
		if a, b := one.Stats(), two.Stats(); a != want || b != want {
			t.Fatalf("round %d: QP.Stats = %+v and %+v, want %+v", round, a, b, want)
		}
		if a, b := registerOf(one), registerOf(two); !bytes.Equal(a, b) {
			t.Fatalf("round %d: registers differ:\n% x\n% x", round, a, b)
		}
		for i := range uint32(len(devOne.SQ) / wqebb) {
			if *one.sq.entry(i) != *two.sq.entry(i) {
				t.Fatalf("round %d: block %d is recorded as %+v and %+v", round, i, *one.sq.entry(i), *two.sq.entry(i))
			}
		}
		spin.StoreRelease(&one.sq.tail, one.sq.head)
		spin.StoreRelease(&two.sq.tail, two.sq.head)
	}
}

// sizeOf returns the bytes of a request that is neither an atomic nor a packet.
func sizeOf(wr *provider.SendWR) uint64 {
	n := uint64(len(wr.InlineData))
	for i := range wr.SGList {
		n += uint64(wr.SGList[i].Length)
	}
	return n
}

// discard builds the same request on both QPs, and discards it.
func discard(t *testing.T, rnd *rand.Rand, one, two *QP) {
	wr := randomRequest(rnd)
	one.BatchBegin()
	two.BatchBegin()
	if err := errors.Join(one.BatchAdd(&wr), addParts(two, &wr)); err != nil {
		t.Fatalf("QP.BatchAdd and addParts: %v", err)
	}
	one.BatchDiscard()
	two.BatchDiscard()
}

// registerOf returns the bytes of a QP's register.
func registerOf(q *QP) []byte {
	u := q.ctx.uars.mappings
	for _, m := range u {
		for off := uarDoorbells; off < uarDoorbells+2*512; off += 512 {
			if b := m.Bytes(); &b[off] == (*byte)(q.sq.reg.Base) {
				return b[off : off+512]
			}
		}
	}
	panic("no register")
}

func randomRequest(rnd *rand.Rand) provider.SendWR {
	wr := provider.SendWR{ID: rnd.Uint64(), Flags: provider.SendFlags(rnd.IntN(8) | rnd.IntN(2)<<5)} // also a flag that does not exist
	switch rnd.IntN(6) {
	case 0:
		return provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: rnd.Uint32()}
	case 1:
		wr.Opcode = provider.OpRead
		wr.SGList = sge(rnd.Uint32N(100))
		return wr
	case 2, 3:
		wr.Opcode = provider.OpSend
	default:
		wr.Opcode, wr.RemoteAddr, wr.RKey = provider.OpWrite, rnd.Uint64(), rnd.Uint32()
	}
	if rnd.IntN(2) == 0 {
		wr.InlineData = make([]byte, rnd.IntN(253))
		for i := range wr.InlineData {
			wr.InlineData[i] = byte(rnd.Uint32())
		}
	} else {
		wr.SGList = sge(rnd.Uint32N(4) * 100_000)
	}
	return wr
}

// addParts adds a request to a batch. It uses the methods of a Builder that support the
// request.
func addParts(q *QP, wr *provider.SendWR) error {
	remote := provider.RemoteMemory{Addr: wr.RemoteAddr, Length: uint64(len(wr.InlineData)), RKey: wr.RKey}
	if wr.InlineData == nil && len(wr.SGList) == 1 {
		remote.Length = uint64(wr.SGList[0].Length)
	}
	switch {
	case wr.Opcode == provider.OpSend && wr.InlineData != nil:
		return q.BatchSendInline(wr.ID, wr.InlineData, wr.Flags)
	case wr.Opcode == provider.OpSend:
		return q.BatchSend(wr.ID, wr.SGList[0], wr.Flags)
	case wr.Opcode == provider.OpWrite && wr.InlineData != nil:
		return q.BatchWriteInline(wr.ID, wr.InlineData, remote, wr.Flags)
	case wr.Opcode == provider.OpWrite:
		return q.BatchWrite(wr.ID, wr.SGList[0], remote, wr.Flags)
	}
	return q.BatchAdd(wr)
}

// anywhere is remote memory for requests that no device executes.
var anywhere = provider.RemoteMemory{Length: 1 << 32}

// TestBatchFull fills a queue with the methods of a Builder, from the first request on and
// where the request counter overflows. Each time, only as many requests fit as there is room
// for.
func TestBatchFull(t *testing.T) {
	r := newSendRig(t, nil)
	q, dev := r.qp(r.config(provider.RC))
	most := q.Cap().SendWR
	e := sge(8)[0]
	fill := func() (n int) {
		q.BatchBegin()
		defer q.BatchPost()
		for ; n <= most; n++ {
			if err := q.BatchWrite(1, e, anywhere, 0); err != nil {
				if !errors.Is(err, provider.ErrFull) {
					t.Errorf("QP.BatchWrite = %v, want provider.ErrFull", err)
				}
				return n
			}
		}
		return n
	}
	// An observed value of 2^32 requests ago must not be mistaken for the current one.
	for _, start := range []uint32{-uint32(most) + 2, 0, 1 << 31} {
		spin.StoreRelease(&q.sq.head, start)
		spin.StoreRelease(&q.sq.tail, start)
		if n, err := q.PostSend(slices.Repeat([]provider.SendWR{{Opcode: provider.OpWrite}}, most+1)); n != most {
			t.Fatalf("PostSend from %#x = %d, %v, want %d", start, n, err, most)
		}
		before := dev.SendCounter()
		if n := fill(); n != 0 || dev.SendCounter() != before {
			t.Errorf("from %#x: %d requests accepted by a full queue, want 0", start, n)
		}
		for _, free := range []int{1, 3, most} {
			spin.StoreRelease(&q.sq.tail, q.sq.head-uint32(most-free))
			if n := fill(); n != free {
				t.Errorf("from %#x: %d requests accepted, want %d", start, n, free)
			}
		}
	}
}

// TestBuilderBounds builds the largest possible requests with the methods of a Builder, and
// checks that larger ones are refused.
func TestBuilderBounds(t *testing.T) {
	r := newSendRig(t, nil)
	q, _ := r.qp(r.config(provider.RC))
	data := make([]byte, q.Cap().Inline+1)
	for _, c := range []struct {
		name  string
		build func(more int) error
		want  error
	}{
		{"BatchWrite", func(more int) error { return q.BatchWrite(1, sge(uint32(maxSGELength + more))[0], anywhere, 0) }, syscall.EMSGSIZE},
		{"BatchSend", func(more int) error { return q.BatchSend(1, sge(uint32(maxSGELength + more))[0], 0) }, syscall.EMSGSIZE},
		{"BatchWriteInline", func(more int) error { return q.BatchWriteInline(1, data[:len(data)-1+more], anywhere, 0) }, syscall.EINVAL},
		{"BatchSendInline", func(more int) error { return q.BatchSendInline(1, data[:len(data)-1+more], 0) }, syscall.EINVAL},
		{"BatchWrite, remote", func(more int) error {
			return q.BatchWrite(1, sge(uint32(8 + more))[0], provider.RemoteMemory{Length: 8}, 0)
		}, provider.ErrRemoteLength},
		{"BatchWriteInline, remote", func(more int) error { return q.BatchWriteInline(1, data[:8+more], provider.RemoteMemory{Length: 8}, 0) }, provider.ErrRemoteLength},
	} {
		q.BatchBegin()
		// The first request takes the slow path, which counts the completed requests.
		if err := errors.Join(q.BatchSend(1, sge(1)[0], 0), c.build(0)); err != nil {
			t.Errorf("%s: QP.BatchSend and build(0): %v", c.name, err)
		}
		if err := c.build(1); !errors.Is(err, c.want) {
			t.Errorf("%s with one byte more = %v, want %v", c.name, err, c.want)
		}
		q.BatchDiscard()
	}
}

// TestNoAllocs posts every kind of request without allocating.
func TestNoAllocs(t *testing.T) {
	r := newSendRig(t, nil)
	to := holder{r.ah(provider.AHAttr{Port: 1, Global: true})}
	inline := make([]byte, 64)
	bind := &provider.MWBindInfo{Type: provider.MWType2, Length: 8}
	lists := map[provider.QPType][]provider.SendWR{
		provider.RC: {
			{Opcode: provider.OpSend, SGList: sge(8)}, {Opcode: provider.OpSend, InlineData: inline}, {Opcode: provider.OpWrite, SGList: append(sge(8), sge(8)...)},
			{Opcode: provider.OpRead, SGList: sge(8)}, {Opcode: provider.OpFetchAdd, SGList: sge(8)}, {Opcode: provider.OpLocalInv}, {Opcode: provider.OpBindMW, Bind: bind},
		},
		provider.UD:        {{Opcode: provider.OpSend, AH: to, SGList: sge(8)}, {Opcode: provider.OpSend, AH: to, InlineData: inline}},
		provider.XRCSend:   {{Opcode: provider.OpWrite, SGList: sge(8)}},
		provider.RawPacket: {{Opcode: provider.OpSend, Header: inline[:14], SGList: sge(8)}, {Opcode: provider.OpSend, InlineData: inline}},
	}
	for typ, list := range lists {
		q, _ := r.qp(r.config(typ))
		for i := range list {
			one := list[i : i+1]
			run(t, fmt.Sprintf("%v %v", typ, one[0].Opcode), q, func() error {
				_, err := q.PostSend(one)
				return err
			})
			run(t, fmt.Sprintf("%v batch of %v", typ, one[0].Opcode), q, func() error {
				q.BatchBegin()
				if err := q.BatchAdd(&one[0]); err != nil {
					return err
				}
				return q.BatchPost()
			})
		}
	}
	q, _ := r.qp(r.config(provider.RC))
	e := sge(8)[0]
	run(t, "builder", q, func() error {
		q.BatchBegin()
		q.BatchAdd(&lists[provider.RC][5]) // the next requests take over its fence
		q.BatchWrite(1, e, anywhere, 0)
		q.BatchSend(1, e, 0)
		q.BatchSendInline(1, inline, 0)
		q.BatchWriteInline(1, inline, anywhere, 0)
		return q.BatchPost()
	})
}

// run calls f many times, and frees the posted requests.
func run(t *testing.T, name string, q *QP, f func() error) {
	t.Helper()
	n := testing.AllocsPerRun(100, func() {
		if err := f(); err != nil {
			t.Errorf("%s: post: %v", name, err)
		}
		spin.StoreRelease(&q.sq.tail, q.sq.head)
	})
	if n != 0 {
		t.Errorf("%s: %v allocations, want 0", name, n)
	}
}
