// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"fmt"
	"math"
	"net"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/uverbs"
)

func TestSRQShape(t *testing.T) {
	for _, tc := range []struct {
		wr, sge, limitWR, limitBytes int
		want                         srqShape
	}{
		{1, 0, 32767, 512, srqShape{slots: 2, wait: true, shift: 5, maxSGE: 1}},
		{3, 1, 32767, 512, srqShape{slots: 4, wait: true, shift: 5, maxSGE: 1}},
		{4, 2, 32767, 512, srqShape{slots: 8, wait: true, shift: 6, maxSGE: 3}},
		{100, 4, 32767, 512, srqShape{slots: 128, wait: true, shift: 7, maxSGE: 7}},
		{16383, 1, 32767, 512, srqShape{slots: 16384, wait: true, shift: 5, maxSGE: 1}},
		// These have no room for a wait queue.
		{16384, 1, 32767, 512, srqShape{slots: 32768, shift: 5, maxSGE: 1}},
		{32767, 31, 32767, 512, srqShape{slots: 32768, shift: 9, maxSGE: 31}},
		{65535, 1, 1 << 20, 512, srqShape{slots: 65536, shift: 5, maxSGE: 1}},
	} {
		got, err := newSRQShape(tc.wr, tc.sge, tc.limitWR, tc.limitBytes)
		if got != tc.want || err != nil {
			t.Errorf("newSRQShape of %d receives with %d elements = %+v, %v, want %+v, nil", tc.wr, tc.sge, got, err, tc.want)
		}
	}
	for _, tc := range [][4]int{{0, 1, 100, 512}, {-1, 1, 100, 512}, {101, 1, 100, 512}, {65536, 1, 1 << 20, 512}, {1, -1, 100, 512}, {1, 32, 100, 512}, {1, math.MaxInt, 100, 512}} {
		if _, err := newSRQShape(tc[0], tc[1], tc[2], tc[3]); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: newSRQShape: error = %v, want EINVAL", tc, err)
		}
	}
}

func TestCreateSRQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	s := r.srq(provider.SRQConfig{MaxWR: 100, MaxSGE: 4, Limit: 7, UserHandle: 5})
	dev := r.k.SRQs()[0]
	if got, want := s.Attr(), (provider.SRQAttr{MaxWR: 127, MaxSGE: 7}); got != want {
		t.Errorf("Attr() = %+v, want %+v", got, want)
	}
	if len(dev.Buf) != 256<<7 || dev.Stride != 128 || dev.Handle != s.Handle() || dev.Num != s.Num() {
		t.Errorf("SRQ of the device = %d bytes with slots of %d, want %d and 128", len(dev.Buf), dev.Stride, 256<<7)
	}
	if err := s.Modify(&provider.SRQAttr{Limit: 9}, provider.SRQAttrLimit); err != nil {
		t.Errorf("SRQ.Modify: %v", err)
	}
	if err := s.Modify(&provider.SRQAttr{MaxWR: 9}, provider.SRQAttrMaxWR); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Modify(MaxWR) = %v, want ErrUnsupported", err)
	}
	for _, cfg := range []provider.SRQConfig{{}, {MaxWR: 1 << 30}, {MaxWR: 1, MaxSGE: 1000}} {
		cfg.PD = r.pd
		if _, err := r.ctx.CreateSRQ(&cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: Context.CreateSRQ: error = %v, want EINVAL", cfg, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("SRQ.Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := s.PostRecv([]provider.RecvWR{{}}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SRQ.PostRecv: error = %v, want net.ErrClosed", err)
	}
	if _, err := s.Query(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SRQ.Query: error = %v, want net.ErrClosed", err)
	}
	if err := s.Modify(&provider.SRQAttr{}, provider.SRQAttrLimit); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SRQ.Modify = %v, want net.ErrClosed", err)
	}
}

// TestSRQLimit checks that the limit of the configuration is set when that many receives have
// been posted.
func TestSRQLimit(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	s := r.srq(provider.SRQConfig{MaxWR: 10, Limit: 5})
	var set []uint32
	r.before = func(req *uverbs.Request) error {
		if a := req.Find(abi.UVERBS_ATTR_CORE_IN); req.Method == abi.UVERBS_METHOD_INVOKE_WRITE && a != nil && len(a.Buf) == abi.Size[abi.UverbsModifySRQ]() {
			set = append(set, abi.View[abi.UverbsModifySRQ](a.Buf).SRQLimit)
		}
		return nil
	}
	for n := range 10 {
		if _, err := s.PostRecv(make([]provider.RecvWR, 1)); err != nil {
			t.Fatalf("SRQ.PostRecv: %v", err)
		}
		if len(set) != min(n/4, 1) {
			t.Fatalf("limits set after %d receives = %v, want one after the fifth", n+1, set)
		}
	}
	if len(set) != 1 || set[0] != 5 {
		t.Fatalf("limits set = %v, want 5", set)
	}
	// If the program sets another limit before that, the other limit applies.
	s = r.srq(provider.SRQConfig{MaxWR: 10, Limit: 5})
	if err := s.Modify(&provider.SRQAttr{Limit: 3}, provider.SRQAttrLimit); err != nil {
		t.Fatalf("SRQ.Modify: %v", err)
	}
	if _, err := s.PostRecv(make([]provider.RecvWR, 9)); err != nil || len(set) != 2 || set[1] != 3 {
		t.Errorf("limits set = %v, %v, want 5 and 3, nil", set, err)
	}
	if a, err := s.Query(); err != nil || a.Limit != 3 || a.MaxWR != s.Attr().MaxWR {
		t.Errorf("SRQ.Query() = %+v, %v, want Limit 3, MaxWR %d, no error", a, err, s.Attr().MaxWR)
	}
}

// TestCreateFails has the kernel refuse each creation. No objects may remain.
func TestCreateFails(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	boom := syscall.ENOSPC
	r.before = func(req *uverbs.Request) error {
		if req.Object == abi.UVERBS_OBJECT_SRQ || req.Object == abi.UVERBS_OBJECT_CQ {
			return boom
		}
		return nil
	}
	if _, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3}); !errors.Is(err, boom) {
		t.Errorf("CreateSRQ = %v, want %v", err, boom)
	}
	if _, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, XRCD: &xrcd{}, CQ: r.cq}); !errors.Is(err, boom) {
		t.Errorf("CreateSRQ of type XRC = %v, want %v", err, boom)
	}
	if _, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 3}); !errors.Is(err, boom) {
		t.Errorf("CreateCQ = %v, want %v", err, boom)
	}
	if r.ctx.resources.srq(0) != nil {
		t.Error("a user index is still in use")
	}
	r.before = nil
}

// TestSRQOrder checks the order of the slots. The list continues with the next slot while it is
// free, and otherwise with the first run of free slots.
func TestSRQOrder(t *testing.T) {
	var l srqList
	links := map[uint16]uint16{}
	l.init(8, false, func(i, next uint16) { links[i] = next })
	take := func(want ...int) {
		t.Helper()
		for _, w := range want {
			if i, ok := l.take(); !ok || int(i) != w {
				t.Fatalf("take = %d, %v, want %d, true", i, ok, w)
			}
		}
	}
	take(0, 1, 2, 3, 4, 5, 6)
	if _, ok := l.take(); ok {
		t.Fatal("take of the last slot succeeded")
	}
	for _, i := range []uint16{5, 2, 3, 1} {
		if !l.done(i) {
			t.Fatalf("done(%d) = false, want true", i)
		}
	}
	if l.done(2) || l.done(7) || l.done(8) || l.done(0xffff) {
		t.Error("done of a slot that is not posted succeeded")
	}
	take(7) // and the run 1, 2, 3 is linked
	if links[7] != 1 || l.tail != 3 {
		t.Errorf("link of 7 = %d, tail = %d, want 1 and 3", links[7], l.tail)
	}
	l.done(0)
	take(1, 2, 3) // 4 is not free, and the run behind 3 is only 5
	if links[3] != 5 || l.tail != 5 {
		t.Errorf("link of 3 = %d, tail = %d, want 5", links[3], l.tail)
	}
	l.done(6)
	l.done(7)
	take(5) // followed by 6
	if links[5] != 6 || l.tail != 6 {
		t.Errorf("link of 5 = %d, tail = %d, want 6", links[5], l.tail)
	}
	take(6, 7) // 7 is followed by 0
	if links[7] != 0 || l.tail != 0 {
		t.Errorf("link of 7 = %d, tail = %d, want 0", links[7], l.tail)
	}
	if _, ok := l.take(); ok || l.nfree != 0 {
		t.Errorf("take succeeded, or %d slots are free, want 0", l.nfree)
	}
	for i := range uint16(8) {
		l.done(i)
	}
	take(0)
	if links[0] != 1 || l.tail != 1 {
		t.Errorf("link of 0 = %d, tail = %d, want 1", links[0], l.tail)
	}
}

// TestSRQLargest uses all possible slot numbers, and frees them in reverse order.
func TestSRQLargest(t *testing.T) {
	for _, wait := range []bool{false, true} {
		var l srqList
		slots := 1 << 16
		if wait {
			slots /= 2
		}
		links := make([]uint16, 1<<16)
		l.init(slots, wait, func(i, next uint16) { links[i] = next })
		for round := range 3 {
			var taken []uint16
			for at := l.head; ; at = links[at] {
				i, ok := l.take()
				if !ok {
					break
				}
				if i != at {
					t.Fatalf("round %d: take = %d, want %d as in the links", round, i, at)
				}
				taken = append(taken, i)
			}
			if len(taken) != slots-1 {
				t.Fatalf("round %d: %d slots taken of %d, want all but one", round, len(taken), slots)
			}
			for k := range taken {
				if !l.done(taken[len(taken)-1-k]) {
					t.Fatalf("round %d: done of a taken slot = false, want true", round)
				}
			}
		}
	}
}

func TestSRQPost(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	s := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 2})
	dev := r.k.SRQs()[0]
	for i := range dev.Buf {
		if i%64 >= 16 {
			dev.Buf[i] = 0xcc
		}
	}
	n, err := s.PostRecv([]provider.RecvWR{
		{SGList: []provider.SGE{{Addr: 0x1122334455667788, Length: 0x99aabb, LKey: 0xccddeeff}, {}}},
		{SGList: []provider.SGE{{}, {}, {Addr: 1, Length: 2, LKey: 3}}},
		{},
		{SGList: make([]provider.SGE, 4)},
	})
	if n != 3 || !errors.Is(err, syscall.EINVAL) || dev.RecvCounter() != 3 {
		t.Fatalf("PostRecv = %d, %v with counter %d, want 3, EINVAL and 3", n, err, dev.RecvCounter())
	}
	want := []string{
		"0099aabbccddeeff1122334455667788 00000000000000000000000000000000 00000000000001000000000000000000",
		"00000000000000000000000000000000 00000000000000000000000000000000 00000002000000030000000000000001",
		"00000000000001000000000000000000 cccccccccccccccccccccccccccccccc cccccccccccccccccccccccccccccccc",
	}
	for i := range want {
		b := dev.Buf[i*64:][:64]
		if got := fmt.Sprintf("%x %x %x", b[16:32], b[32:48], b[48:64]); got != want[i] {
			t.Errorf("slot of receive %d =\n%s, want\n%s", i, got, want[i])
		}
	}
	if n, err := s.PostRecv([]provider.RecvWR{{SGList: []provider.SGE{{Length: 1 << 31}}}}); n != 0 || !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("PostRecv of 2 GiB = %d, %v, want 0, EMSGSIZE", n, err)
	}
	wrs := []provider.RecvWR{{ID: 1, SGList: make([]provider.SGE, 3)}}
	q := r.qp(provider.RC, s)
	cqe := q.recvCQE(0).Bytes(64)
	wcs := make([]provider.WC, 1)
	if n := testing.AllocsPerRun(100, func() {
		head := s.list.head
		if n, err := s.PostRecv(wrs); n != 1 {
			t.Fatalf("SRQ.PostRecv = %d, %v, want 1, nil", n, err)
		}
		setCounter(cqe, head)
		r.dev.Complete(cqe)
		if n, err := r.cq.Poll(wcs); n != 1 {
			t.Fatalf("CQ.Poll = %d, %v, want 1, nil", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestSRQRecordHas16Bits checks that the record of an SRQ counts receives in 16 bits, as
// libmlx5's record does. The bits above them are zero.
func TestSRQRecordHas16Bits(t *testing.T) {
	var rec [2]uint32
	s := SRQ{posted: 0xfffe, bell: &doorbell{rec: &rec}}
	for _, want := range []uint32{0xffff, 0, 1} {
		if s.publish(1); rec[recvRecord] != endian.Big32(want) {
			t.Errorf("record after %d receives = %#x, want %#x", s.posted, endian.Big32(rec[recvRecord]), want)
		}
	}
}

// TestWidestWQE checks the limit of the WQE size. The size has 6 bits, even if the device
// reports a larger maximum.
func TestWidestWQE(t *testing.T) {
	for says, want := range map[uint16]int{512: 512, 1024: 1024, 1025: 1024, 16384: 1024} {
		if got := widestWQE(says); got != want {
			t.Errorf("widestWQE(%d) = %d, want %d", says, got, want)
		}
	}
}
