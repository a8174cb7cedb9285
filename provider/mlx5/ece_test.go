// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// wantECE checks the options of a QP.
func wantECE(t *testing.T, when string, q *QP, options uint32) {
	t.Helper()
	want := provider.ECE{VendorID: eceVendor, Options: options}
	if got, err := q.QueryECE(); err != nil || got != want {
		t.Errorf("%s: QueryECE() = %+v, %v, want %+v", when, got, err, want)
	}
}

// TestECEAfterFailedModify checks that options apply to the next successful Modify, and to
// no later one. TestVectors covers the rest.
func TestECEAfterFailedModify(t *testing.T) {
	r := newSendRig(t, nil)
	p, err := r.ctx.CreateQP(r.config(provider.RC))
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	q := p.(*QP)
	t.Cleanup(func() { q.Close() })
	wantECE(t, "new", q, mlx5test.ECE)
	if err := q.SetECE(provider.ECE{VendorID: eceVendor, Options: eceVersion | 0x1c}); err != nil {
		t.Fatalf("QP.SetECE: %v", err)
	}
	if err := q.Modify(&provider.QPAttr{State: provider.QPRTS}, provider.QPAttrState); !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("Modify(RTS) of a new QP = %v, want EINVAL", err)
	}
	wantECE(t, "after a failure", q, 0)
	moveTo(t, q, provider.QPInit)
	wantECE(t, "in INIT", q, eceVersion|4)
	dev := r.k.QPs()[0]
	rate := provider.QPAttr{RateLimit: 1000}
	if err := q.Modify(&rate, provider.QPAttrRateLimit); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
	if dev.ECE != 0 { // granted by the last command
		t.Errorf("options of the second Modify = %#x, want 0", dev.ECE)
	}
	wantECE(t, "with a rate", q, eceVersion|4)
}

// TestECEErrors checks that options need a device with ECE, its vendor ID, and an open QP.
func TestECEErrors(t *testing.T) {
	r := newSendRig(t, nil)
	q, _ := r.qp(r.config(provider.RC))
	if err := q.SetECE(provider.ECE{VendorID: 0x2c9, Options: eceVersion | 1}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SetECE(another vendor's) = %v, want EINVAL", err)
	}
	wantECE(t, "after a refusal", q, mlx5test.ECE)
	q.Close()
	if _, err := q.QueryECE(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("QueryECE() of a closed QP = %v, want net.ErrClosed", err)
	}
	if err := q.SetECE(provider.ECE{VendorID: eceVendor}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetECE() of a closed QP = %v, want net.ErrClosed", err)
	}

	r = newSendRig(t, func(k *mlx5test.Kernel) {
		k.Context = func(_ *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp) {
			resp.CompMask &^= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE
		}
	})
	q, dev := r.qp(r.config(provider.RC))
	if dev.Create.ECEOptions != 0 {
		t.Errorf("CREATE_QP on a device without ECE requests options %#x, want 0", dev.Create.ECEOptions)
	}
	wantECE(t, "without ECE", q, 0)
	if err := q.SetECE(provider.ECE{VendorID: eceVendor, Options: eceVersion | 1}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetECE() without ECE = %v, want ErrUnsupported", err)
	}
}
