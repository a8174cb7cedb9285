// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// expect waits for an event of a type, and skips others.
func expect(t *testing.T, q *verbs.AsyncEvents, typ verbs.AsyncEventType) verbs.AsyncEvent {
	t.Helper()
	for {
		ev, err := q.Next(within(t))
		if err != nil {
			t.Fatalf("no %v: %v", typ, err)
		}
		if ev.Type == typ {
			return ev
		}
	}
}

func events(t *testing.T, dev *verbs.Device) *verbs.AsyncEvents {
	t.Helper()
	q, err := dev.AsyncEvents()
	if err != nil {
		t.Fatalf("dev.AsyncEvents: %v", err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// status returns the completion status in an error.
func status(err error) verbs.WCStatus {
	var e *verbs.WCError
	if errors.As(err, &e) {
		return e.Status
	}
	return verbs.WCSuccess
}

// TestLost checks that lost messages are repeated, unnoticed by the program, until the retries
// are exhausted.
func TestLost(t *testing.T) {
	l := newLink(t)
	for i, words := range [][]any{{"lose", 1}, {"lose-answers", 2}, {"delay", 1, 20_000}} {
		l.hosts[1].Fault(t, words...)
		if err := l.write(t, byte(i+1)); err != nil {
			t.Fatalf("write with fault %v = %v, want nil", words, err)
		}
	}
	l.hosts[1].Lose(t)
	if err := l.write(t, 9); status(err) != verbs.WCRetryExcErr {
		t.Errorf("write with all messages lost = %v, want retries exceeded", err)
	}
}

// TestFailNext checks the libibverbs status of each syndrome of a card.
func TestFailNext(t *testing.T) {
	for syndrome, want := range map[prm.Syndrome]verbs.WCStatus{
		prm.SyndromeLocalLength: verbs.WCLocLenErr, prm.SyndromeLocalQPOp: verbs.WCLocQPOpErr, prm.SyndromeLocalProt: verbs.WCLocProtErr,
		prm.SyndromeBadResponse: verbs.WCBadRespErr, prm.SyndromeRemoteInvalid: verbs.WCRemInvReqErr,
		prm.SyndromeRemoteAccess: verbs.WCRemAccessErr, prm.SyndromeRemoteOp: verbs.WCRemOpErr,
		prm.SyndromeRetryExceeded: verbs.WCRetryExcErr, prm.SyndromeRNRRetryExceeded: verbs.WCRNRRetryExcErr,
	} {
		l := newLink(t)
		l.hosts[1].Fault(t, "fail-next", l.client.QP().Num(), uint8(syndrome))
		if err := l.write(t, 1); status(err) != want {
			t.Errorf("write with syndrome %#x = %v, want %v", syndrome, err, want)
		}
	}
}

// TestFailQP checks that a failed QP sends an event and flushes.
func TestFailQP(t *testing.T) {
	for why, want := range map[prm.EventType]verbs.AsyncEventType{
		prm.EventWQCatas: verbs.AsyncQPFatal, prm.EventWQInvalidReq: verbs.AsyncQPReqErr, prm.EventWQAccess: verbs.AsyncQPAccessErr,
	} {
		l := newLink(t)
		q := events(t, l.client.Device())
		l.hosts[1].Fault(t, "fail-qp", l.client.QP().Num(), uint8(why))
		if ev := expect(t, q, want); ev.QP == nil || ev.QP.Num() != l.client.QP().Num() {
			t.Errorf("event = %+v, want the client's QP", ev)
		}
		if err := l.write(t, 1); status(err) != verbs.WCWRFlushErr {
			t.Errorf("write after %v = %v, want a flush", want, err)
		}
	}
}

// TestFailNextReceive checks that a failed receive ends both sides, each with its own status.
func TestFailNextReceive(t *testing.T) {
	l := newLink(t)
	l.hosts[0].Fault(t, "fail-next-receive", l.server.QP().Num(), uint8(prm.SyndromeLocalProt))
	if err := l.server.PostRecv(7, l.remote.Slice(0, 64)); err != nil {
		t.Fatalf("l.server.PostRecv: %v", err)
	}
	if err := l.client.Send(within(t), l.local.Slice(0, 1)); status(err) != verbs.WCRemOpErr {
		t.Errorf("Send = %v, want a remote operation error", err)
	}
	if wc, err := l.server.WaitRecv(within(t)); status(err) != verbs.WCLocProtErr {
		t.Errorf("WaitRecv = %+v, %v, want a local protection error", wc, err)
	}
}

// TestFailCQ checks that a CQ overrun sends an event.
func TestFailCQ(t *testing.T) {
	l := newLink(t)
	q := events(t, l.client.Device())
	cq := l.client.QP().SendCQ()
	dv, err := mlx5dv.FromCQ(cq)
	if err != nil {
		t.Fatalf("mlx5dv.FromCQ: %v", err)
	}
	l.hosts[1].Fault(t, "fail-cq", dv.Num())
	if ev := expect(t, q, verbs.AsyncCQErr); ev.CQ != cq {
		t.Errorf("event = %+v, want the client's CQ", ev)
	}
}

// TestDrain checks that a QP that the device stops sends an event when it has stopped.
func TestDrain(t *testing.T) {
	l := newLink(t)
	q := events(t, l.client.Device())
	l.hosts[1].Fault(t, "drain", l.client.QP().Num())
	if ev := expect(t, q, verbs.AsyncSQDrained); ev.QP != l.client.QP() {
		t.Errorf("event = %+v, want the client's QP", ev)
	}
	if attr, err := l.client.QP().Query(); err != nil || attr.State != verbs.QPSQD || attr.SQDraining {
		t.Errorf("Query = state %v, draining %v, %v, want SQD", attr.State, attr.SQDraining, err)
	}
}

// TestPort pulls the cable of a port and plugs it in again. Linux 6.1 and 6.12 may take the port
// for DOWN after a probe of the driver. They do not report the first loss of the link then
// (docs/reference/driver-faults.md), so the test requires no event of it.
func TestPort(t *testing.T) {
	host := vmtest.Hosts(t, 2)[1]
	if err := host.Unplug(); err != nil {
		t.Fatalf("host.Unplug: %v", err)
	}
	host.Plug(t)
	l := newLink(t)
	dev := l.client.Device()
	q := events(t, dev)
	state := func(want verbs.PortState) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			p, err := dev.QueryPort(1)
			if err != nil {
				t.Fatalf("dev.QueryPort: %v", err)
			}
			if p.State == want {
				return
			}
			if time.Since(start) > limit {
				t.Fatalf("the port is %v, want %v", p.State, want)
			}
		}
	}
	state(verbs.PortActive)
	t.Cleanup(func() { host.Fault(t, "port-up") })
	host.Fault(t, "port-down")
	state(verbs.PortDown)
	host.Fault(t, "port-up")
	expect(t, q, verbs.AsyncPortActive)
	state(verbs.PortActive)

	host.Fault(t, "port-down")
	if ev := expect(t, q, verbs.AsyncPortErr); ev.Port != 1 {
		t.Errorf("Port of the event = %d, want 1", ev.Port)
	}
	state(verbs.PortDown)
	if err := l.write(t, 1); status(err) != verbs.WCRetryExcErr {
		t.Errorf("Write without a cable = %v, want %v", err, verbs.WCRetryExcErr)
	}
	host.Fault(t, "port-up")
	expect(t, q, verbs.AsyncPortActive)
	state(verbs.PortActive)
	if err := newLink(t).write(t, 2); err != nil {
		t.Errorf("Write with the cable again = %v, want nil", err)
	}
}

// TestFailCommand checks that a rejected command returns an errno and leaves nothing behind.
func TestFailCommand(t *testing.T) {
	dev, err := verbs.DefaultHost().Open(vmtest.Hosts(t, 1)[0].Device)
	if err != nil {
		t.Fatalf("verbs.DefaultHost().Open: %v", err)
	}
	defer dev.Close()
	for status, want := range map[prm.Status]syscall.Errno{
		prm.StatusBadParam: syscall.EINVAL, prm.StatusLimit: syscall.ENOMEM, prm.StatusInternal: syscall.EIO,
	} {
		vmtest.Hosts(t, 1)[0].Fault(t, "fail-command", prm.OpCreateCQ, uint8(status), 0xabcd, 1)
		cq, err := dev.CreateCQ(verbs.CQConfig{})
		if !errors.Is(err, want) {
			t.Errorf("CreateCQ with status %#x = %v, want %v", status, err, want)
		}
		if err == nil {
			cq.Close()
		}
		if cq, err = dev.CreateCQ(verbs.CQConfig{}); err != nil {
			t.Fatalf("next CreateCQ = %v", err)
		}
		cq.Close()
	}
}

// TestNoSuchFault checks that invalid faults are rejected with a reason.
func TestNoSuchFault(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, words := range [][]any{{"explode"}, {"fail-qp", 0xfffff0, 5}, {"lose"}} {
		if err := h.TryFault(words...); err == nil {
			t.Errorf("TryFault(%v) = nil error", words)
		}
	}
}
