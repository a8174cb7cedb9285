// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// scatterQP creates an RC QP on a PD and reports whether the command requests data in its
// completions.
func scatterQP(t *testing.T, r *sendRig, p provider.PD, change func(*provider.QPConfig)) (q *QP, scatters bool) {
	t.Helper()
	cfg := r.config(provider.RC)
	cfg.PD = p
	if change != nil {
		change(cfg)
	}
	q, dev := r.qp(cfg)
	return q, dev.Create.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0
}

func allocPD(t *testing.T, c *Context) *pd {
	t.Helper()
	p, err := c.AllocPD()
	if err != nil {
		t.Fatalf("Context.AllocPD: %v", err)
	}
	return p.(*pd)
}

// TestUnmappedMemory registers memory that the program cannot address, before and after
// QPs are created.
func TestUnmappedMemory(t *testing.T) {
	r := newSendRig(t, nil)
	before, after := allocPD(t, r.ctx), allocPD(t, r.ctx)
	if err := before.AddUnmapped(); err != nil {
		t.Fatalf("pd.AddUnmapped: %v", err)
	}
	if _, scatters := scatterQP(t, r, before, nil); scatters {
		t.Error("a QP on a PD with unmapped memory gets data in its completions")
	}
	q, scatters := scatterQP(t, r, after, nil)
	if !scatters {
		t.Error("a QP on a PD without unmapped memory gets no data in its completions")
	}
	if _, scatters := scatterQP(t, r, after, func(c *provider.QPConfig) { c.NoScatterToCQE = true }); scatters {
		t.Error("a QP with NoScatterToCQE gets data in its completions")
	}
	if err := after.AddUnmapped(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("AddUnmapped with a QP that gets data in completions = %v, want EBUSY", err)
	}
	if err := q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if err := after.AddUnmapped(); err != nil {
		t.Errorf("AddUnmapped after Close of that QP = %v, want nil", err)
	}
}

// TestUnmappedMemoryOfSRQ registers memory that the program cannot address for the PD of an SRQ,
// before and after the creation of QPs of another PD. The QPs' receives have the PD of the SRQ.
func TestUnmappedMemoryOfSRQ(t *testing.T) {
	r := newSendRig(t, func(k *mlx5test.Kernel) {
		k.Device = func(_ *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
			own.Flags |= abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT
		}
	})
	for name, create := range map[string]func(p provider.PD, srq provider.SRQ) (provider.QP, error){
		"RC": func(p provider.PD, srq provider.SRQ) (provider.QP, error) {
			cfg := r.config(provider.RC)
			cfg.PD, cfg.SRQ = p, srq
			return r.ctx.CreateQP(cfg)
		},
		"DCT": func(p provider.PD, srq provider.SRQ) (provider.QP, error) {
			return r.ctx.CreateDCT(&DCTConfig{PD: p, CQ: r.cq, SRQ: srq})
		},
	} {
		own, before, after := allocPD(t, r.ctx), allocPD(t, r.ctx), allocPD(t, r.ctx)
		// scatterQP creates a QP of the PD own with an SRQ of p.
		scatterQP := func(p provider.PD) (q provider.QP, scatters bool) {
			srq, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: p, MaxWR: 4, MaxSGE: 1})
			if err != nil {
				t.Fatalf("Context.CreateSRQ: %v", err)
			}
			t.Cleanup(func() { srq.Close() })
			if q, err = create(own, srq); err != nil {
				t.Fatalf("%s: create: %v", name, err)
			}
			t.Cleanup(func() { q.Close() })
			all := r.k.QPs()
			return q, all[len(all)-1].Create.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0
		}
		if err := before.AddUnmapped(); err != nil {
			t.Fatalf("pd.AddUnmapped: %v", err)
		}
		if _, scatters := scatterQP(before); scatters {
			t.Errorf("%s: a QP on an SRQ of a PD with unmapped memory gets data in its completions", name)
		}
		if own.scatters != 0 {
			t.Errorf("%s: the QP's PD counts %d QPs with data in completions, want 0", name, own.scatters)
		}
		q, scatters := scatterQP(after)
		if !scatters {
			t.Errorf("%s: a QP on an SRQ of a PD without unmapped memory gets no data in its completions", name)
		}
		for _, p := range []*pd{own, after} {
			if err := p.AddUnmapped(); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("%s: AddUnmapped with a QP that gets data in completions = %v, want EBUSY", name, err)
			}
		}
		if err := q.Close(); err != nil {
			t.Fatalf("%s: QP.Close: %v", name, err)
		}
		for _, p := range []*pd{own, after} {
			if err := p.AddUnmapped(); err != nil {
				t.Errorf("%s: AddUnmapped after Close of that QP = %v, want nil", name, err)
			}
		}
	}
}

// TestScatterEnvironment disables data in completions with the environment variable.
func TestScatterEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"0": false, "1": true, "": true} {
		t.Setenv("MLX5_SCATTER_TO_CQE", value)
		r := newSendRig(t, nil)
		if _, got := scatterQP(t, r, r.pd, nil); got != want {
			t.Errorf("MLX5_SCATTER_TO_CQE=%q: data in completions = %v, want %v", value, got, want)
		}
	}
}
