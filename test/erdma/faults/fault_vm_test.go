// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/link"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// TestFailNext checks the status and the reason of each error of the adapter (enum erdma_wc_status and enum
// erdma_vendor_err of the kernel's erdma_hw.h).
func TestFailNext(t *testing.T) {
	for code, want := range map[int]verbs.WCError{
		1: {Status: verbs.WCGeneralErr}, 2: {Status: verbs.WCGeneralErr, VendorErr: 1},
		3: {Status: verbs.WCRemAccessErr, VendorErr: 2}, 4: {Status: verbs.WCRemAccessErr, VendorErr: 3},
		5: {Status: verbs.WCRemAccessErr, VendorErr: 4}, 6: {Status: verbs.WCRemAccessErr, VendorErr: 5},
		7: {Status: verbs.WCRemAccessErr, VendorErr: 6}, 8: {Status: verbs.WCLocQPOpErr, VendorErr: 0x20},
		9: {Status: verbs.WCGeneralErr, VendorErr: 0x21}, 10: {Status: verbs.WCLocAccessErr, VendorErr: 0x30},
		11: {Status: verbs.WCLocAccessErr, VendorErr: 0x31}, 12: {Status: verbs.WCLocAccessErr, VendorErr: 0x32},
		13: {Status: verbs.WCLocAccessErr, VendorErr: 0x33}, 14: {Status: verbs.WCLocAccessErr, VendorErr: 0x34},
		16: {Status: verbs.WCRetryExcErr},
	} {
		l := link.New(t)
		l.Hosts[1].Fault(t, "fail-next", l.Client.QP().Num(), code)
		err := l.Write(link.Within(t))
		var got *verbs.WCError
		if !errors.As(err, &got) || got.Status != want.Status || got.VendorErr != want.VendorErr {
			t.Errorf("Conn.Write with status %d = %v, want status %v and reason %#x", code, err, want.Status, want.VendorErr)
		}
		l.WantFatal(t)
	}
}

// TestFailQP checks that the failure of a QP sends an event, and that the receives of both QPs are flushed.
func TestFailQP(t *testing.T) {
	l := link.New(t)
	l.PostReceives(t, 7)
	l.Hosts[1].Fault(t, "fail-qp", l.Client.QP().Num())
	l.WantFatal(t)
	link.WantFlushed(t, l.Client, 7)
	link.WantFlushed(t, l.Server, 8)
	if err := l.Write(link.Within(t)); err == nil {
		t.Error("Conn.Write after the failure of the QP = nil, want an error")
	}
}

// TestSilent checks that a request of a silent adapter waits, and succeeds when the adapter is not silent any more.
func TestSilent(t *testing.T) {
	l := link.New(t)
	l.Hosts[1].Fault(t, "silent", 1)
	t.Cleanup(func() { l.Hosts[1].Fault(t, "silent", 0) })
	l.Local.Bytes()[0] = 5
	written := make(chan error, 1)
	go func() { written <- l.Write(link.Within(t)) }()
	select {
	case err := <-written:
		t.Fatalf("Conn.Write with a silent adapter = %v, want a wait", err)
	case <-time.After(100 * time.Millisecond):
	}
	l.Hosts[1].Fault(t, "silent", 0)
	if err := <-written; err != nil || l.Remote.Bytes()[0] != 5 {
		t.Errorf("Conn.Write = %v, the peer's memory has %d, want 5", err, l.Remote.Bytes()[0])
	}
}

// TestNoSuchFault checks that invalid faults are rejected.
func TestNoSuchFault(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, words := range [][]any{{"explode"}, {"fail-qp", 0xfffff}, {"silent"}} {
		if err := h.TryFault(words...); err == nil {
			t.Errorf("Host.TryFault(%v) = nil, want an error", words)
		}
	}
}
