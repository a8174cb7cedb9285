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

// TestFailNext checks the status of each error of the adapter (enum bnxt_re_req_wc_status of libbnxt_re).
func TestFailNext(t *testing.T) {
	for code, want := range map[uint32]verbs.WCStatus{
		1: verbs.WCBadRespErr, 2: verbs.WCLocLenErr, 3: verbs.WCLocQPOpErr, 4: verbs.WCLocProtErr, 5: verbs.WCMWBindErr,
		6: verbs.WCRemInvReqErr, 7: verbs.WCRemAccessErr, 8: verbs.WCRemOpErr, 9: verbs.WCRNRRetryExcErr, 10: verbs.WCRetryExcErr,
	} {
		l := link.New(t)
		l.Hosts[1].Fault(t, "fail-next", l.Client.QP().Num(), code)
		err := l.Write(link.Within(t))
		var got *verbs.WCError
		if !errors.As(err, &got) || got.Status != want || got.VendorErr != code {
			t.Errorf("Conn.Write with status %d = %v, want status %v and the same reason", code, err, want)
		}
		l.WantFatal(t)
	}
}

// TestFailQP checks that the failure of a QP sends an event and flushes its receives. The peer receives nothing.
func TestFailQP(t *testing.T) {
	l := link.New(t)
	l.PostReceives(t, 7)
	l.Hosts[1].Fault(t, "fail-qp", l.Client.QP().Num())
	l.WantFatal(t)
	link.WantFlushed(t, l.Client, 7)
	if err := l.Write(link.Within(t)); err == nil {
		t.Error("Conn.Write after the failure of the QP = nil, want an error")
	}
}

// TestSilent checks that a request to a silent adapter is repeated until the adapter is not silent any more.
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
	case <-time.After(50 * time.Millisecond):
	}
	l.Hosts[1].Fault(t, "silent", 0)
	if err := <-written; err != nil || l.Remote.Bytes()[0] != 5 {
		t.Errorf("Conn.Write = %v, the peer's memory has %d, want 5", err, l.Remote.Bytes()[0])
	}
}

// TestPort checks the events of a port that loses its link.
func TestPort(t *testing.T) {
	l := link.New(t)
	t.Cleanup(func() { l.Hosts[1].Fault(t, "port-up") })
	for _, step := range []struct {
		fault string
		want  verbs.AsyncEventType
	}{{"port-down", verbs.AsyncPortErr}, {"port-up", verbs.AsyncPortActive}} {
		l.Hosts[1].Fault(t, step.fault)
		ctx := link.Within(t)
		for {
			ev, err := l.Events.Next(ctx)
			if err != nil {
				t.Fatalf("%s: AsyncEvents.Next: %v, want %v", step.fault, err, step.want)
			}
			if ev.Type == step.want {
				break
			}
		}
	}
}

// TestBusy checks that requests are executed while the FIFO of doorbells is almost full.
func TestBusy(t *testing.T) {
	l := link.New(t)
	l.Hosts[1].Fault(t, "doorbells", 10_000)
	t.Cleanup(func() { l.Hosts[1].Fault(t, "doorbells", 0) })
	for i := range 100 {
		l.Local.Bytes()[0] = byte(i)
		if err := l.Write(link.Within(t)); err != nil || l.Remote.Bytes()[0] != byte(i) {
			t.Fatalf("Conn.Write = %v, the peer's memory has %d, want %d", err, l.Remote.Bytes()[0], i)
		}
	}
}

// TestNoSuchFault checks that invalid faults are rejected.
func TestNoSuchFault(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, words := range [][]any{{"explode"}, {"fail-qp", 0xfffff}, {"fail-next", 1}, {"silent"}, {"doorbells", 1 << 20}} {
		if err := h.TryFault(words...); err == nil {
			t.Errorf("Host.TryFault(%v) = nil, want an error", words)
		}
	}
}
