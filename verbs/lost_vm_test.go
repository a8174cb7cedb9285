// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMLostAnswers loses the responses to a WRITE and to the READ or atomic behind it, so that
// both requests are sent again. The peer must execute the atomic once, and the result must be
// correct.
//
// rxe acknowledges a repeated SEND or WRITE with the number of the last packet that it has
// executed (duplicate_request). This may be the number of an atomic. rxe's requester accepts a
// plain acknowledgement of that number as the response to the atomic (check_ack). The atomic
// then completes with success, and its result is not stored. READs do not change that number.
func TestVMLostAnswers(t *testing.T) {
	rt := vmWire(t)
	const answer, word = 0x1122334455667788, 4096
	untouched := bytes.Repeat([]byte{0xee}, 8)
	requests := map[string]verbs.SendWR{"READ": {Opcode: verbs.OpRead}}
	if vmtest.Driver() != "siw" {
		requests["FETCH_ADD"] = verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 5}
		requests["COMPARE_SWAP"] = verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: answer, Swap: answer + 5}
	}
	for name, second := range requests {
		t.Run(name, func(t *testing.T) {
			l, r := rt.pair(t, verbs.QPCap{})
			if vmtest.Driver() != "siw" {
				// No packet may be lost before, because the devices resolve each other's
				// addresses.
				l.send(t, verbs.SendWR{ID: 9, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()})
				l.ok(t, 1)
			}
			binary.NativeEndian.PutUint64(r.buf.Bytes()[word:], answer)
			copy(l.buf.Bytes(), untouched)
			second.ID, second.Flags, second.SGList = 2, verbs.SendSignaled, []verbs.SGE{l.buf.Slice(0, 8)}
			second.RemoteAddr, second.RKey = r.buf.Addr()+word, r.buf.RKey()
			undo := r.host.Lose(t)
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte("write")}, second)
			r.served(t, l.psn()+3)
			undo()
			l.ok(t, 2)

			want := uint64(answer + 5)
			if second.Opcode == verbs.OpRead {
				want = answer
			}
			if got := binary.NativeEndian.Uint64(r.buf.Bytes()[word:]); got != want || string(r.buf.Bytes()[:5]) != "write" {
				t.Errorf("the peer's memory = %q and %#x, want \"write\" and %#x", r.buf.Bytes()[:5], got, want)
			}
			switch got := l.buf.Bytes()[:8]; {
			case binary.NativeEndian.Uint64(got) == answer:
			case vmtest.Driver() == "rxe" && second.Opcode != verbs.OpRead && bytes.Equal(got, untouched):
				t.Logf("the %s completed with success and stored nothing, see docs/reference/driver-faults.md", name)
			default:
				t.Errorf("the %s returned % x, want %#x", name, got, uint64(answer))
			}
		})
	}
}

// TestVMBindBehindLostAnswers loses the response to a WRITE in front of a BIND_MW, so that the
// WRITE is sent again. The window must be bound.
//
// rxe also executes the BIND_MW again (req_retry). This fails because the window is bound, and
// the QP breaks. On Linux 6.1, at first only its requester stops. If the response to the
// repeated WRITE is also lost, nothing completes, and the QP stays in RTS.
func TestVMBindBehindLostAnswers(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	write := verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()}
	first := write
	first.ID, first.Flags = 1, verbs.SendSignaled
	l.send(t, first) // no packet may be lost before, because the devices resolve each other's addresses
	l.ok(t, 1)
	mr, w := l.window(t, verbs.MWType2)
	bind := w.Bind(mr, 0, 100, verbs.RemoteWrite)
	bind.ID, bind.Flags = 2, verbs.SendSignaled
	write.InlineData = []byte("write")
	undo := r.host.Lose(t)
	l.send(t, write, bind)
	r.served(t, l.psn()+2)
	undo()

	rxe := vmtest.Driver() == "rxe"
	mayHang := rxe && !linuxSince(t, 6, 12)
	wcs := l.until(t, bind.ID, mayHang)
	a, err := l.qp.Query()
	if err != nil {
		t.Fatalf("QP.Query: %v", err)
	}
	failed := !slices.ContainsFunc(wcs, func(wc verbs.WC) bool { return wc.Err() == nil })
	switch n := len(wcs); {
	case n == 1 && wcs[0].Err() == nil && a.State == verbs.QPRTS:
	case mayHang && n == 0 && a.State == verbs.QPRTS,
		rxe && n > 0 && failed && a.State == verbs.QPErr:
		t.Logf("completions = %+v with the QP in %v, see docs/reference/driver-faults.md", wcs, a.State)
	default:
		t.Errorf("completions = %+v, want one of success; the QP is in %v", wcs, a.State)
	}
	// The window is closed before the QP, because the destruction of the QP would wait for the
	// window.
	if err := w.Close(); err != nil {
		t.Errorf("MW.Close: %v", err)
	}
}

// until returns the completions up to the completion of a request. If the QP may hang, it
// returns the completions of at most three seconds.
func (e *end) until(t *testing.T, id uint64, mayHang bool) (all []verbs.WC) {
	t.Helper()
	ctx := deadline(t)
	if mayHang {
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		ctx = short
	}
	for len(all) == 0 || all[len(all)-1].ID != id {
		var wcs [1]verbs.WC
		n, err := e.cq.Wait(ctx, wcs[:])
		all = append(all, wcs[:n]...)
		if mayHang && errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatalf("CQ.Wait: %v after completions %+v", err, all)
		}
	}
	return all
}

// served waits until the WRITE of TestVMLostAnswers has been executed. On rxe it also waits for
// all packets before the packet with number next.
func (e *end) served(t *testing.T, next uint32) {
	t.Helper()
	ctx := deadline(t)
	done := func() bool {
		if e.buf.Bytes()[0] != 'w' {
			return false
		}
		if vmtest.Driver() != "rxe" {
			return true
		}
		a, err := e.qp.Query() // only the number of the next packet shows an executed READ
		if err != nil {
			t.Fatalf("QP.Query: %v", err)
		}
		return a.RQPSN == next&0xffffff
	}
	for !done() {
		if ctx.Err() != nil {
			t.Fatal("the peer did not execute the requests")
		}
		runtime.Gosched()
	}
}
