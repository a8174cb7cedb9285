// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMCreateCQ creates CQs of all sizes, on each interrupt vector, with and without a
// channel. It also checks that invalid configurations are refused.
func TestVMCreateCQ(t *testing.T) {
	dev := openDevice(t, verbs.DefaultHost(), vmtest.Hosts(t, 1)[0].Device)
	ch := createCompChannel(t, dev)
	a := dev.Attr()
	for _, n := range []int{1, a.MaxCQE / 2, a.MaxCQE} {
		for vector := range a.CompVectors {
			for _, cfg := range []verbs.CQConfig{{}, {Channel: ch}, {NoEvents: true}} {
				cfg.Entries, cfg.Vector = n, vector
				cq, err := dev.CreateCQ(cfg)
				if err != nil {
					t.Fatalf("%+v: Device.CreateCQ: %v", cfg, err)
				}
				if cq.Entries() < n {
					t.Errorf("CreateCQ(%+v): Entries() = %d, want at least %d", cfg, cq.Entries(), n)
				}
				if err := cq.Close(); err != nil {
					t.Errorf("CQ.Close: %v", err)
				}
			}
		}
	}
	for _, cfg := range []verbs.CQConfig{{Entries: a.MaxCQE + 1}, {Entries: -1}, {Entries: 100, Vector: a.CompVectors + 1}, {Entries: 100, Vector: -1}} {
		if _, err := dev.CreateCQ(cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: Device.CreateCQ: error = %v, want EINVAL", cfg, err)
		}
	}
	// No software device has a clock for completions.
	if a.TimestampMask != 0 || a.CoreClock != 0 {
		t.Errorf("TimestampMask, CoreClock = %#x, %d kHz, want 0", a.TimestampMask, a.CoreClock)
	}
}

// TestVMShrinkCQ checks that a CQ cannot be resized to fewer entries than it has completions. On bnxt_re it can, because
// Resize takes the completions out of the old ring. No completion is lost in either case.
func TestVMShrinkCQ(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	const n = 40
	for i := range uint64(n) {
		l.send(t, verbs.SendWR{ID: i, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte("x")})
	}
	// The READ completes after the WRITEs, so all completions are in the CQ by then.
	l.send(t, verbs.SendWR{ID: n, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 1)}})
	for l.buf.Bytes()[0] != 'x' {
		if deadline(t).Err() != nil {
			t.Fatal("the READ has not completed")
		}
	}
	before := l.cq.Entries()
	err, keeps := l.cq.Resize(1), vmtest.Driver() == "bnxt_re"
	if keeps && err != nil || !keeps && !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Resize(1) of a CQ with completions = %v, want EINVAL, or nil on bnxt_re", err)
	}
	if now := l.cq.Entries(); !keeps && now != before || keeps && now > n {
		t.Errorf("Entries() = %d, want %d as before, or at most %d on bnxt_re", now, before, n)
	}
	l.ok(t, n+1)
	if err := l.cq.Resize(1); err != nil {
		t.Errorf("Resize(1) of an empty CQ: %v", err)
	}
}
