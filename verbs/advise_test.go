// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestCloseDuringAdvise closes a PD while the kernel executes advice for it. The PD is
// destroyed after the advice.
func TestCloseDuringAdvise(t *testing.T) {
	rt := fakeRoute()
	var pd *verbs.PD
	var during error
	var gone, destroyed bool // destroyed: the PD now, and the PD during the advice
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if r.Object == abi.UVERBS_OBJECT_MR && r.Method == abi.UVERBS_METHOD_ADVISE_MR {
			during = pd.Close()
			destroyed = gone
			return syscall.EFAULT
		}
		gone = gone || r.Object == abi.UVERBS_OBJECT_PD && r.Method == abi.UVERBS_METHOD_PD_DESTROY
		return nil
	}
	_, pd = openPD(t, rt.h, "rxe0")
	if err := pd.Advise(verbs.Prefetch, true, verbs.SGE{Length: 1}); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("PD.Advise = %v, want EFAULT", err)
	}
	if during != nil || destroyed {
		t.Errorf("Close during the advice = %v, PD destroyed during it = %v, want nil, false", during, destroyed)
	}
	if !gone {
		t.Error("the PD was not destroyed after the advice")
	}
}
