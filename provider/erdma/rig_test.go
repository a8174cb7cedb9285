// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"encoding/binary"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// rig is a context on a kernel in memory.
type rig struct {
	*kernel
	f   *uverbs.File
	ctx *Context
	pd  provider.PD
}

func newRig(t *testing.T, node uverbs.NodeType) *rig {
	t.Helper()
	r := &rig{kernel: newKernel(t)}
	if err := r.start(node); err != nil {
		t.Fatalf("rig.start: %v", err)
	}
	t.Cleanup(func() {
		if err := r.f.Close(); err != nil {
			t.Errorf("File.Close: %v", err)
		}
		if err := r.ctx.Close(); err != nil {
			t.Errorf("Context.Close: %v", err)
		}
	})
	return r
}

func (r *rig) start(node uverbs.NodeType) error {
	var err error
	if r.f, err = uverbs.Open(r.kernel, uverbs.DeviceInfo{Name: "erdma_0", NodeType: node}); err != nil {
		return err
	}
	ctx, err := Driver{}.Open(r.f)
	if err != nil {
		return err
	}
	r.ctx = ctx.(*Context)
	r.pd, err = r.ctx.AllocPD()
	return err
}

// runningCQ is a CQ whose polls run the device first.
type runningCQ struct {
	*cq
	d *device
}

func (c runningCQ) Poll(wcs []provider.WC) (int, error) {
	c.d.run()
	return c.cq.Poll(wcs)
}

// end is a QP with a CQ of its own.
type end struct {
	t     testing.TB
	rig   *rig
	q     *qp
	c     *cq
	wakes int
	dev   *deviceQP
}

// make makes an end with a QP in RESET.
func (r *rig) make(t testing.TB, cfg provider.QPConfig) *end {
	t.Helper()
	e := &end{t: t, rig: r}
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 64, Wake: func() { e.wakes++ }})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	e.c = c.(*cq)
	cfg.Type, cfg.PD, cfg.SendCQ, cfg.RecvCQ = provider.RC, r.pd, c, c
	q, err := r.ctx.CreateQP(&cfg)
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	e.q = q.(*qp)
	e.dev = r.device.qps[e.q.handle]
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{e.q, e.c} {
			if err := c.Close(); err != nil {
				t.Errorf("Close of %T: %v", c, err)
			}
		}
	})
	return e
}

// connected makes an end with a QP in RTS.
func (r *rig) connected(t testing.TB, c provider.QPCap) *end {
	t.Helper()
	e := r.make(t, provider.QPConfig{Cap: c})
	for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
		e.q.SetState(s)
	}
	return e
}

// memory registers memory.
func (r *rig) memory(t testing.TB, n int) (b []byte, addr uint64, mr provider.MR) {
	t.Helper()
	region, err := mem.Alloc(n)
	if err != nil {
		t.Fatalf("mem.Alloc: %v", err)
	}
	t.Cleanup(func() { region.Free() })
	p := abi.NewSlicePointer(region.Bytes())
	addr = binary.NativeEndian.Uint64(abi.Bytes(&p))
	mr, err = r.ctx.RegMR(&provider.MRConfig{PD: r.pd, Mem: region.Bytes(), IOVA: addr})
	if err != nil {
		t.Fatalf("Context.RegMR: %v", err)
	}
	return region.Bytes(), addr, mr
}

func (e *end) send(ids ...uint64) {
	e.t.Helper()
	for _, id := range ids {
		if n, err := e.q.PostSend([]provider.SendWR{{ID: id, Opcode: provider.OpSend, Flags: provider.SendSignaled}}); n != 1 || err != nil {
			e.t.Fatalf("PostSend of %d = %d, %v, want 1, nil", id, n, err)
		}
	}
}

func (e *end) recv(ids ...uint64) {
	e.t.Helper()
	for _, id := range ids {
		if n, err := e.q.PostRecv([]provider.RecvWR{{ID: id}}); n != 1 || err != nil {
			e.t.Fatalf("PostRecv of %d = %d, %v, want 1, nil", id, n, err)
		}
	}
}

// poll polls up to n completions.
func (e *end) poll(n int) []provider.WC {
	e.t.Helper()
	wcs := make([]provider.WC, n)
	got, err := e.c.Poll(wcs)
	if err != nil {
		e.t.Fatalf("CQ.Poll: %v", err)
	}
	return wcs[:got]
}

// ids returns the IDs of completions.
func ids(wcs []provider.WC) []uint64 {
	var out []uint64
	for _, w := range wcs {
		out = append(out, w.ID)
	}
	return out
}
