// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/provider"
)

// TestPlacement checks that no send queue is at the page offset of the doorbells.
func TestPlacement(t *testing.T) {
	var all []*QP // kept, so that no address is used twice
	for range 100 {
		q := newQP(provider.RC)
		all = append(all, q)
		if from := uintptr(unsafe.Pointer(&q.sq)) % uarSize; from+unsafe.Sizeof(q.sq) > uarDoorbells {
			t.Errorf("QP %d: send queue of %d bytes at page offset %#x, which reaches the doorbells", len(all), unsafe.Sizeof(q.sq), from)
		}
	}
}

// TestUserIndices checks that indices are assigned in turn, so that a freed index is reused
// last, and that out-of-range indices are not found.
func TestUserIndices(t *testing.T) {
	var r resources
	q, s := new(QP), new(SRQ)
	for i := range uint32(indexHalf + 2) {
		got, err := r.add(q, nil)
		if got != i || err != nil {
			t.Fatalf("add = %d, %v, want %d, nil", got, err, i)
		}
	}
	r.remove(7)
	if r.qp(7) != nil {
		t.Error("qp(7) of a removed QP succeeded")
	}
	room := r.room
	for i := uint32(indexHalf + 2); i < room/2; i++ {
		if got, err := r.add(q, nil); got != i || err != nil {
			t.Fatalf("add = %d, %v, want %d, nil", got, err, i)
		}
	}
	for i := range room - room/2 {
		got, err := r.add(q, nil)
		if got != room/2+i || err != nil {
			t.Fatalf("add = %d, %v, want %d, nil", got, err, room/2+i)
		}
		r.remove(got)
	}
	if got, err := r.add(nil, s); got != 7 || err != nil || r.srq(7) != s || r.qp(7) != nil {
		t.Errorf("add of an SRQ = %d, %v, want 7, the index that has been free the longest", got, err)
	}
	if r.qp(6) != q || r.qp(indexHalf+1) != q || r.srq(6) != nil {
		t.Error("qp or srq returned the wrong queues")
	}
	for _, i := range []uint32{room - 1, room, 1<<24 - 1, 1 << 24, 1<<24 | 6, ^uint32(0)} {
		if r.qp(i) != nil || r.srq(i) != nil {
			t.Errorf("index %#x was found, want none", i)
		}
	}
	full := resources{room: 1 << 24, used: 1 << 24}
	if got, err := full.add(q, nil); got != noIndex || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("add of one too many = %#x, %v, want noIndex, ENOMEM", got, err)
	}
}
