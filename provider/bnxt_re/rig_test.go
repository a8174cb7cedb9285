// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"encoding/binary"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// A chip is a device with the features of a generation.
type chip struct {
	num                    uint32
	variable, msn, anySize bool
	push, paced, toggle    bool
	maxSGE                 uint32
	maxCQE                 uint32
	noAtomics, old         bool // old: the kernel does not know about modes
}

// The generations of chips, with the features that kernels report for them.
var chips = map[string]chip{
	"P4":          {num: 0x16d7, maxSGE: 6},
	"P4, any":     {num: 0x16d7, maxSGE: 6, anySize: true},
	"P5":          {num: 0x1750, maxSGE: 6, anySize: true, toggle: true, paced: true},
	"P5, push":    {num: 0x1750, maxSGE: 6, anySize: true, toggle: true, push: true},
	"P7":          {num: 0x1760, maxSGE: 13, anySize: true, variable: true, msn: true, toggle: true},
	"P7, push":    {num: 0x1760, maxSGE: 13, anySize: true, variable: true, msn: true, toggle: true, push: true, paced: true},
	"P7, no MSN":  {num: 0x1760, maxSGE: 13, variable: true},
	"P5, 2^n MSN": {num: 0x1751, maxSGE: 6, msn: true},
}

// rig is a context on a kernel in memory.
type rig struct {
	*kernel
	f   *uverbs.File
	ctx *Context
	pd  provider.PD

	other *deviceCQ // of another QP
}

func newRig(t testing.TB, c chip) *rig {
	t.Helper()
	r := &rig{kernel: newKernel(t, c)}
	if err := r.start(); err != nil {
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

func (r *rig) start() error {
	if err := r.open(); err != nil {
		return err
	}
	var err error
	r.pd, err = r.ctx.AllocPD()
	return err
}

// open opens the device.
func (r *rig) open() error {
	var err error
	if r.f, err = uverbs.Open(r.kernel, uverbs.DeviceInfo{Name: "bnxt_re0"}); err != nil {
		return err
	}
	ctx, err := Driver{}.Open(r.f)
	if err != nil {
		return err
	}
	r.ctx = ctx.(*Context)
	r.device.ctx = r.ctx
	return nil
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
	wakes chan struct{} // of the CQ
	dev   *deviceQP
}

// make makes an end with a QP in RESET. cfg has the type, RC by default.
func (r *rig) make(t testing.TB, cfg provider.QPConfig) *end {
	t.Helper()
	e := &end{t: t, rig: r, wakes: make(chan struct{}, 1000)}
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 64, Wake: func() {
		select {
		case e.wakes <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	e.c = c.(*cq)
	if cfg.Type == 0 {
		cfg.Type = provider.RC
	}
	cfg.PD, cfg.SendCQ, cfg.RecvCQ = r.pd, c, c
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

// ready moves the QP to RTS.
func (e *end) ready() {
	e.t.Helper()
	for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
		a, mask := &provider.QPAttr{State: s, PathMTU: provider.MTU1024, SQPSN: 0xfffff0}, provider.QPAttrState
		switch s {
		case provider.QPRTR:
			mask |= provider.QPAttrPathMTU
		case provider.QPRTS:
			mask |= provider.QPAttrSQPSN
		}
		if err := e.q.Modify(a, mask); err != nil {
			e.t.Fatalf("QP.Modify to %v: %v", s, err)
		}
	}
}

// connected makes an end with a QP in RTS.
func (r *rig) connected(t testing.TB, c provider.QPCap) *end {
	t.Helper()
	e := r.make(t, provider.QPConfig{Cap: c})
	e.ready()
	return e
}

// pair connects two ends.
func (r *rig) pair(t testing.TB, c provider.QPCap) (l, p *end) {
	t.Helper()
	l, p = r.connected(t, c), r.connected(t, c)
	l.dev.peer, p.dev.peer = p.dev, l.dev
	return l, p
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

// send posts signaled SENDs.
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
