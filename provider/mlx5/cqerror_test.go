// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"strings"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

func TestErrorNamesTheEntry(t *testing.T) {
	r := newStrictRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	r.put(q.sendCQE(q.sendPosted(5, 0), opcodeSend), &mlx5test.CQE{UserIndex: 0x123456}, q.sendCQE(q.sendPosted(6, 0), opcodeSend))
	if wc := r.pollSome(); len(wc) != 1 || wc[0].ID != 5 {
		t.Fatalf("completions before the invalid one = %+v, want ID 5", wc)
	}
	for range 2 {
		n, err := r.cq.Poll(make([]provider.WC, 4))
		var bad *CQEError
		if n != 0 || !errors.As(err, &bad) || bad.CQ != r.cq.num || bad.CQE[33] != 0x12 || !strings.Contains(err.Error(), "no queue has the user index") {
			t.Fatalf("Poll = %d, %v, want 0 and a CQEError with the entry and the reason", n, err)
		}
	}
	if err := r.cq.Resize(100); err == nil {
		t.Error("Resize of a failed CQ succeeded")
	}
}
