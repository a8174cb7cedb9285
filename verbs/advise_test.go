// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestCloseDuringAdvise: a PD with no memory is in use while the kernel has advice about
// it, and the error says by what.
func TestCloseDuringAdvise(t *testing.T) {
	rt := fakeRoute()
	var pd *verbs.PD
	var during error
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if r.Object == abi.UVERBS_OBJECT_MR && r.Method == abi.UVERBS_METHOD_ADVISE_MR {
			during = pd.Close()
			return syscall.EFAULT
		}
		return nil
	}
	_, pd = openPD(t, rt.h, "rxe0")
	if err := pd.Advise(verbs.Prefetch, true, verbs.SGE{Length: 1}); !errors.Is(err, syscall.EFAULT) {
		t.Errorf("Advise: %v", err)
	}
	if !errors.Is(during, syscall.EBUSY) || !strings.Contains(during.Error(), "in use by 1 calls of Advise: ") {
		t.Errorf("Close meanwhile: %v", during)
	}
	if err := pd.Close(); err != nil {
		t.Errorf("Close afterwards: %v", err)
	}
}
