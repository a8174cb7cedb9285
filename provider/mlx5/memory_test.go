// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// TestPlacement: no send queue is where in a page the doorbells are.
func TestPlacement(t *testing.T) {
	var all []*QP // kept, so that no place comes twice
	for range 100 {
		q := newQP(provider.RC)
		all = append(all, q)
		if from := uintptr(unsafe.Pointer(&q.sq)) % uarSize; from+unsafe.Sizeof(q.sq) > uarDoorbells {
			t.Errorf("QP %d: a send queue of %d bytes at %#x", len(all), unsafe.Sizeof(q.sq), from)
		}
	}
}

// TestDoorbellRecords: records lie in lines of their own, are zero when they are
// handed out, and a page without any is given back.
func TestDoorbellRecords(t *testing.T) {
	c, err := openContext(t, mlx5test.New("mlx5_0"))
	if err != nil {
		t.Fatal(err)
	}
	per := c.pageSize / c.caps.cacheLine
	var all []*doorbell
	seen := make(map[*[2]uint32]bool)
	for range per + 1 {
		d, err := c.allocDB()
		if err != nil {
			t.Fatal(err)
		}
		if *d.rec != [2]uint32{} || seen[d.rec] {
			t.Fatalf("record %p: %v, seen: %v", d.rec, *d.rec, seen[d.rec])
		}
		seen[d.rec] = true
		*d.rec = [2]uint32{1, 2}
		all = append(all, d)
	}
	if n := len(c.doorbells.pages); n != 2 {
		t.Errorf("%d records are in %d pages, want 2", per+1, n)
	}
	freed := all[3].rec
	free := func(d *doorbell) {
		t.Helper()
		if err := c.freeDB(d); err != nil {
			t.Error(err)
		}
	}
	free(all[3])
	if err := c.freeDB(all[3]); err == nil {
		t.Error("a record was freed twice")
	}
	if all[3], err = c.allocDB(); err != nil || all[3].rec != freed || *freed != [2]uint32{} {
		t.Errorf("record after one was freed: %p %v, %v, want %p", all[3].rec, *all[3].rec, err, freed)
	}
	for _, d := range all {
		free(d)
	}
	if n := len(c.doorbells.pages); n != 0 {
		t.Errorf("%d pages are left", n)
	}
}

// TestUserIndices gives out indices in turn, so that one that is free again is the last to
// be used, and finds none out of range.
func TestUserIndices(t *testing.T) {
	var r resources
	q, s := new(QP), new(SRQ)
	for i := range uint32(indexHalf + 2) {
		got, err := r.add(q, nil)
		if got != i || err != nil {
			t.Fatalf("index %d, %v, want %d", got, err, i)
		}
	}
	r.remove(7)
	if r.qp(7) != nil {
		t.Error("QP 7 is there after it was removed")
	}
	room := r.room
	for i := uint32(indexHalf + 2); i < room/2; i++ {
		if got, err := r.add(q, nil); got != i || err != nil {
			t.Fatalf("index %d, %v, want %d", got, err, i)
		}
	}
	for i := range room - room/2 {
		got, err := r.add(q, nil)
		if got != room/2+i || err != nil {
			t.Fatalf("index %d, %v, want %d", got, err, room/2+i)
		}
		r.remove(got)
	}
	if got, err := r.add(nil, s); got != 7 || err != nil || r.srq(7) != s || r.qp(7) != nil {
		t.Errorf("SRQ: index %d, %v, want 7, which was free the longest", got, err)
	}
	if r.qp(6) != q || r.qp(indexHalf+1) != q || r.srq(6) != nil {
		t.Error("QPs are not found")
	}
	for _, i := range []uint32{room - 1, room, 1<<24 - 1, 1 << 24, 1<<24 | 6, ^uint32(0)} {
		if r.qp(i) != nil || r.srq(i) != nil {
			t.Errorf("index %#x is there", i)
		}
	}
	full := resources{room: 1 << 24, used: 1 << 24}
	if got, err := full.add(q, nil); got != noIndex || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("add of one too many = %#x, %v, want noIndex, ENOMEM", got, err)
	}
}
