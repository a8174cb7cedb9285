// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// newRecvQueue creates a queue and returns its memory and its doorbell record.
func newRecvQueue(t *testing.T, count, shift uint32) (*recvQueue, []byte, *uint32) {
	t.Helper()
	m, err := mem.Alloc(int(count) << shift)
	if err != nil {
		t.Fatalf("mem.Alloc: %v", err)
	}
	t.Cleanup(func() { m.Free() })
	q, bell := new(recvQueue), new(uint32)
	q.open(unsafe.Pointer(unsafe.SliceData(m.Bytes())), count, shift, bell, false)
	return q, m.Bytes(), bell
}

func TestPostRecv(t *testing.T) {
	q, b, bell := newRecvQueue(t, 4, 5)
	for i := range b {
		b[i] = 0xcc
	}
	n, err := q.post([]provider.RecvWR{
		{ID: 1, SGList: []provider.SGE{{Addr: 0x1122334455667788, Length: 0x99aabb, LKey: 0xccddeeff}, {Addr: 1, Length: 2, LKey: 3}}},
		{ID: 2, SGList: []provider.SGE{{Addr: 9, LKey: 8}, {Addr: 1, Length: 2, LKey: 3}}}, // no element without a length
		{ID: 3},
		{ID: 4, SGList: make([]provider.SGE, 3)},
	})
	if n != 3 || !errors.Is(err, syscall.EINVAL) || endian.Big32(*bell) != 3 {
		t.Fatalf("post = %d, %v with record %#x, want 3, EINVAL and 3", n, err, endian.Big32(*bell))
	}
	const nothing = "00000000000001000000000000000000"
	want := []string{
		"0099aabbccddeeff1122334455667788 00000002000000030000000000000001",
		"00000002000000030000000000000001 " + nothing,
		nothing + " cccccccccccccccccccccccccccccccc",
		"cccccccccccccccccccccccccccccccc cccccccccccccccccccccccccccccccc",
	}
	for i := range want {
		if got := fmt.Sprintf("%x %x", b[i*32:][:16], b[i*32+16:][:16]); got != want[i] {
			t.Errorf("slot of receive %d = %s, want %s", i, got, want[i])
		}
	}
	if n, err := q.post([]provider.RecvWR{{SGList: []provider.SGE{{Length: 1 << 31}}}}); n != 0 || !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("post of 2 GiB = %d, %v, want 0, EMSGSIZE", n, err)
	}
	if n, err := q.post(make([]provider.RecvWR, 3)); n != 1 || !errors.Is(err, provider.ErrFull) || endian.Big32(*bell) != 4 {
		t.Errorf("post to a full queue = %d, %v with record %d, want 1, ErrFull and 4", n, err, endian.Big32(*bell))
	}
	if n, err := q.post(nil); n != 0 || err != nil {
		t.Errorf("post(nil) = %d, %v, want 0, nil", n, err)
	}
	if id, ok := q.complete(0); id != 1 || !ok {
		t.Errorf("complete(0) = %d, %v, want 1, true", id, ok)
	}
	if n, err := q.post(make([]provider.RecvWR, 3)); n != 1 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("post after a completion = %d, %v, want 1, ErrFull", n, err)
	}
}

// TestRecvCounters posts around the ring and beyond the 16 bits of the record.
func TestRecvCounters(t *testing.T) {
	q, _, bell := newRecvQueue(t, 8, 4)
	id := uint64(0)
	for done := uint64(0); done < 1<<17; {
		for {
			n, err := q.post([]provider.RecvWR{{ID: id}, {ID: id + 1}, {ID: id + 2}})
			if id += uint64(n); err != nil {
				break
			}
		}
		if id-done != 8 || endian.Big32(*bell) != uint32(id)&0xffff {
			t.Fatalf("%d receives with record %#x, want 8 and %#x", id-done, endian.Big32(*bell), uint32(id)&0xffff)
		}
		for range done%7 + 1 {
			if got, ok := q.complete(uint16(done)); got != done || !ok {
				t.Fatalf("complete = %d, %v, want %d, true", got, ok, done)
			}
			done++
		}
		if _, ok := q.complete(uint16(done - 1)); ok {
			t.Fatal("second complete of a receive succeeded")
		}
		if _, ok := q.complete(uint16(id)); ok {
			t.Fatal("complete of a receive that was not posted succeeded")
		}
	}
}

func TestRecvMute(t *testing.T) {
	q, _, bell := newRecvQueue(t, 8, 4)
	q.mute = true
	if n, err := q.post(make([]provider.RecvWR, 5)); n != 5 || err != nil || *bell != 0 {
		t.Fatalf("post = %d, %v with record %#x, want 5, nil and 0", n, err, *bell)
	}
	q.publish()
	if endian.Big32(*bell) != 5 {
		t.Errorf("record = %#x after publish, want 5", endian.Big32(*bell))
	}
	q.reset()
	if *bell != 0 || q.head != 0 || q.tail != 0 {
		t.Errorf("after a reset: record = %#x, head = %d, tail = %d, want 0", *bell, q.head, q.tail)
	}
	if n, err := q.post(make([]provider.RecvWR, 9)); n != 8 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("post after a reset = %d, %v, want 8, ErrFull", n, err)
	}
}

func TestPostRecvAllocates(t *testing.T) {
	q, _, _ := newRecvQueue(t, 8, 6)
	wrs := []provider.RecvWR{{SGList: make([]provider.SGE, 4)}, {}, {}}
	if n := testing.AllocsPerRun(100, func() {
		if n, err := q.post(wrs); n != 3 {
			t.Fatalf("post = %d, %v, want 3, nil", n, err)
		}
		for range 3 {
			q.complete(uint16(q.tail))
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkPostRecv(b *testing.B) {
	for _, sge := range []int{1, 4} {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("sge=%d/batch=%d", sge, batch), func(b *testing.B) {
				m, err := mem.Alloc(1024 << 6)
				if err != nil {
					b.Fatalf("mem.Alloc(1024 << 6): %v", err)
				}
				defer m.Free()
				q, bell := new(recvQueue), new(uint32)
				q.open(unsafe.Pointer(unsafe.SliceData(m.Bytes())), 1024, 6, bell, false)
				wrs := make([]provider.RecvWR, batch)
				sg := make([]provider.SGE, sge)
				for i := range sg {
					sg[i] = provider.SGE{Addr: 0x1000, Length: 4096, LKey: 7}
				}
				for i := range wrs {
					wrs[i].SGList = sg
				}
				for i := 0; i < b.N; i += batch {
					q.lock.Lock()
					q.post(wrs)
					q.lock.Unlock()
					q.tail = q.head
				}
			})
		}
	}
}
