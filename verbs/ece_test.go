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

// TestECE passes the options of a peer to devices by hand, as a program without the connection
// manager does.
func TestECE(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		if rt.mlx5 || vmtest.Driver() == "mlx5" {
			testECE(t, rt)
			return
		}
		l := newEnd(t, rt.h, rt.a, verbs.QPCap{})
		_, err := l.qp.QueryECE()
		for op, err := range map[string]error{"QueryECE": err, "SetECE": l.qp.SetECE(verbs.ECE{VendorID: 0x15b3})} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s = %v, want ErrUnsupported", op, err)
			}
		}
	})
}

func testECE(t *testing.T, rt *route) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	all, err := l.qp.QueryECE()
	if err != nil || all.VendorID != 0x15b3 || all.Options&(all.Options-1) == 0 {
		t.Fatalf("QueryECE() = %+v, %v, want several options of vendor 0x15b3", all, err)
	}
	if err := l.qp.SetECE(verbs.ECE{VendorID: 0x2c9, Options: 1}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SetECE(another vendor's) = %v, want EINVAL", err)
	}
	if err := l.qp.SetECE(verbs.ECE{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SetECE(no vendor's) = %v, want ErrUnsupported", err)
	}
	want := func(when string, e *end, want verbs.ECE) {
		t.Helper()
		if got, err := e.qp.QueryECE(); err != nil || got != want {
			t.Errorf("%s: QueryECE() = %+v, %v, want %+v", when, got, err, want)
		}
	}
	want("after refusals", l, all)
	some := all
	some.Options &= all.Options - 1 // without the lowest option
	for _, e := range []*end{l, r} {
		if err := e.qp.SetECE(some); err != nil {
			t.Fatalf("QP.SetECE: %v", err)
		}
		want("before Modify", e, verbs.ECE{VendorID: all.VendorID})
	}
	l.init(t)
	want("after INIT", l, some)
	r.init(t)
	for _, e := range []*end{l, r} {
		e.rtr(t, map[*end]*end{l: r, r: l}[e])
		e.rts(t)
		want("in RTS", e, some)
	}
	copy(l.buf.Bytes(), "agreed")
	r.recv(t, verbs.RecvWR{ID: 1, SGList: []verbs.SGE{r.buf.Slice(4096, 64)}})
	l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 6)}})
	l.ok(t, 1)
	r.ok(t, 1)
	if got := string(r.buf.Bytes()[4096:][:6]); got != "agreed" {
		t.Errorf("received %q, want %q", got, "agreed")
	}
}
