// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// srqDevice takes receives from an SRQ using only the links in memory.
type srqDevice struct {
	srq  *mlx5test.SRQ
	next uint16 // the slot that it takes next
	seen uint32 // receives that it has taken
}

// take returns the slot of the next receive, false if none is posted.
func (d *srqDevice) take() (uint16, bool) {
	if uint16(d.seen) == d.srq.RecvCounter() {
		return 0, false
	}
	i := d.next
	d.next = binary.BigEndian.Uint16(d.srq.Buf[int(i)*d.srq.Stride+srqLink:])
	d.seen++
	return i, true
}

// TestSRQ posts receives, which a device takes by following the links. The device completes
// them in any order, or returns them because of page faults. The device must take each receive
// as posted and in order, and each receive completes once.
func TestSRQ(t *testing.T) {
	for _, wait := range []bool{true, false} {
		for _, faults := range []bool{false, true} {
			for seed := range uint64(shorter(20, 3)) {
				t.Run(fmt.Sprintf("wait=%v/faults=%v/%d", wait, faults, seed), func(t *testing.T) { testSRQ(t, wait, faults, seed) })
			}
		}
	}
}

func testSRQ(t *testing.T, wait, faults bool, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := newCQRig(t, provider.CQConfig{})
	maxWR := 1 + rnd.IntN(40)
	if seed%3 == 2 {
		maxWR += 500
	}
	if !wait {
		r.ctx.caps.maxSRQWR = 2 * maxWR
	}
	s := r.srq(provider.SRQConfig{MaxWR: maxWR, MaxSGE: 2})
	if s.list.wait != wait {
		t.Fatalf("wait queue = %v, want %v", s.list.wait, wait)
	}
	q := r.qp(provider.RC, s)
	dev := srqDevice{srq: r.k.SRQs()[0]}
	type receive struct {
		id   uint64
		slot uint16
	}
	var posted []uint64 // not yet taken by the device
	var taken []receive
	id, room := uint64(0), s.Attr().MaxWR
	for range 3000 {
		switch rnd.IntN(4) {
		case 0, 1:
			wrs := make([]provider.RecvWR, 1+rnd.IntN(3))
			for i := range wrs {
				wrs[i] = provider.RecvWR{ID: id + uint64(i), SGList: []provider.SGE{{Addr: id + uint64(i), Length: 1, LKey: 2}}}
			}
			n, err := s.PostRecv(wrs)
			for range n {
				posted = append(posted, id)
				id++
			}
			free := room - len(posted) - len(taken)
			if err != nil && (!errors.Is(err, provider.ErrFull) || n == len(wrs) || free > 0 && !faults) {
				t.Fatalf("PostRecv of %d with %d free = %d, %v", len(wrs), free, n, err)
			}
			if err == nil && free < 0 && !faults {
				t.Fatalf("PostRecv accepted %d receives, want at most %d", len(posted)+len(taken), room)
			}
		case 2:
			slot, ok := dev.take()
			if !ok {
				if len(posted) > 0 {
					t.Fatalf("the device found none of the %d posted receives", len(posted))
				}
				break
			}
			b := dev.srq.Buf[int(slot)*dev.srq.Stride:]
			if len(posted) == 0 || binary.BigEndian.Uint64(b[24:]) != posted[0] {
				t.Fatalf("the device found receive %d, want the first of %v", binary.BigEndian.Uint64(b[24:]), posted)
			}
			if faults && rnd.IntN(6) == 0 {
				// The receive is put behind the posted ones.
				e := q.recvCQE(slot)
				e.Opcode, e.Syndrome, e.VendorSyndrome = mlx5test.CQERespErr, syndromeAborted, vendorPageFault
				r.put(e)
				if wcs := r.poll(); len(wcs) != 0 {
					t.Fatalf("completions after a page fault = %+v, want none", wcs)
				}
				posted = append(posted[1:], posted[0])
				break
			}
			taken = append(taken, receive{posted[0], slot})
			posted = posted[1:]
		case 3:
			if len(taken) == 0 {
				break
			}
			i := rnd.IntN(len(taken))
			r.put(q.recvCQE(taken[i].slot))
			if wc := r.one(); wc.ID != taken[i].id || wc.Status != 0 {
				t.Fatalf("completion = %+v, want success of ID %d", wc, taken[i].id)
			}
			taken = append(taken[:i], taken[i+1:]...)
		}
	}
}
