// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"testing"

	"purerdma/provider"
)

// TestReceiveCounterModulo completes receives on a device whose counter has only as many bits
// as the queue needs. It uses both decoders, several times around the queue.
func TestReceiveCounterModulo(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil) // 64 receives
	for id := uint64(0); id < 1000; id += 8 {
		r.cq.forget() // the general decoder takes the first receive
		for i := range uint64(8) {
			r.put(q.recvCQE(q.recvPosted(t, id+i) % 64))
		}
		wcs := r.poll()
		if len(wcs) != 8 {
			t.Fatalf("%d completions after receive %d, want 8", len(wcs), id)
		}
		for i, wc := range wcs {
			if wc.ID != id+uint64(i) || wc.Status != provider.WCSuccess {
				t.Fatalf("completion %+v, want success of receive %d", wc, id+uint64(i))
			}
		}
	}
}
