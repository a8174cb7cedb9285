// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"slices"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// TestModifyRate checks that the command has the rate of the attributes if the mask names it,
// and otherwise 0.
func TestModifyRate(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q, _ := r.madeQP(provider.QPConfig{})
	var rates []uint32
	r.before = func(req *uverbs.Request) error {
		if in := req.Find(abi.UVERBS_ATTR_CORE_IN); in != nil && len(in.Buf) == abi.Size[abi.UverbsExModifyQP]() {
			rates = append(rates, abi.View[abi.UverbsExModifyQP](in.Buf).RateLimit)
		}
		return nil
	}
	if err := q.SetECE(provider.ECE{VendorID: eceVendor, Options: eceVersion | 1}); err != nil {
		t.Fatalf("QP.SetECE: %v", err)
	}
	attr := provider.QPAttr{MinRNRTimer: 1, RateLimit: 1000}
	for _, mask := range []provider.QPAttrMask{provider.QPAttrMinRNRTimer, provider.QPAttrRateLimit} {
		if err := q.Modify(&attr, mask); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
	}
	if want := []uint32{0, 1000}; !slices.Equal(rates, want) {
		t.Errorf("rates = %v, want %v", rates, want)
	}
}
