// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"slices"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// TestDropped closes and resets QPs of an SRQ that have left completions of receives in the CQ. The
// provider reports these receives.
func TestDropped(t *testing.T) {
	for name, remove := range map[string]func(q *QP) error{
		"Close": (*QP).Close,
		"Modify": func(q *QP) error {
			return q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCQRig(t, provider.CQConfig{Entries: 31})
			var dropped []uint64
			srq := r.srq(provider.SRQConfig{MaxWR: 8, Dropped: func(id uint64) { dropped = append(dropped, id) }})
			q, _ := r.madeQP(provider.QPConfig{SRQ: srq})
			other, _ := r.madeQP(provider.QPConfig{SRQ: srq})
			r.send(q, 1)
			failed := q.recvCQE(r.postSRQ(srq, 8))
			failed.Opcode, failed.Syndrome = mlx5test.CQERespErr, uint8(prm.SyndromeFlush)
			r.put(q.recvCQE(r.postSRQ(srq, 7)), q.sendCQE(0, opcodeSend), other.recvCQE(r.postSRQ(srq, 9)), failed, q.recvCQE(99))
			r.postSRQ(srq, 10)
			if err := remove(q); err != nil {
				t.Fatalf("%s of the QP: %v", name, err)
			}
			if want := []uint64{7, 8}; !slices.Equal(dropped, want) {
				t.Errorf("dropped receives = %v, want %v", dropped, want)
			}
			if wc := r.one(); wc.ID != 9 {
				t.Errorf("cqRig.one() = %+v, want ID 9", wc)
			}
		})
	}
}

// TestDroppedAdditions closes a QP of an SRQ after the provider has taken its completions out of the
// ring, because the QP failed.
func TestDroppedAdditions(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	q, srq := r.onSRQ, r.onSRQ.srq
	var dropped []uint64
	srq.dropped = func(id uint64) { dropped = append(dropped, id) }
	r.put(&mlx5test.CQE{Opcode: 7, UserIndex: q.index, QPN: q.num})
	q.commands.Lock() // delays the goroutine that ends the QP
	if wcs := r.poll(); len(wcs) != 0 {
		t.Fatalf("completions = %+v, want none", wcs)
	}
	r.put(q.sendCQE(0, opcodeSend), q.recvCQE(0), q.recvCQE(r.postSRQ(srq, 21)))
	q.commands.Unlock()
	<-r.woken
	if err := q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if want := []uint64{1, 21}; !slices.Equal(dropped, want) {
		t.Errorf("dropped receives = %v, want %v", dropped, want)
	}
	if wcs := r.poll(); len(wcs) != 0 {
		t.Errorf("completions = %+v, want none", wcs)
	}
}
