// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// expect waits for an event of a type, past others.
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
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// status is that of the completion which an error is of.
func status(err error) verbs.WCStatus {
	var e *verbs.WCError
	if errors.As(err, &e) {
		return e.Status
	}
	return verbs.WCSuccess
}

// TestLost: what is lost is sent again, and the program does not hear of it, as long
// as the retries last.
func TestLost(t *testing.T) {
	l := newLink(t)
	for i, words := range [][]any{{"lose", 1}, {"lose-answers", 2}, {"delay", 1, 20_000}} {
		l.hosts[1].Fault(t, words...)
		if err := l.write(t, byte(i+1)); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
	l.hosts[1].Lose(t)
	if err := l.write(t, 9); status(err) != verbs.WCRetryExcErr {
		t.Errorf("all is lost: %v", err)
	}
}

// TestFailNext: each syndrome of a card as the status of libibverbs.
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
			t.Errorf("syndrome %#x: %v, want %v", syndrome, err, want)
		}
	}
}

// TestFailQP: a QP that fails by itself says so by an event, and flushes.
func TestFailQP(t *testing.T) {
	for why, want := range map[prm.EventType]verbs.AsyncEventType{
		prm.EventWQCatas: verbs.AsyncQPFatal, prm.EventWQInvalidReq: verbs.AsyncQPReqErr, prm.EventWQAccess: verbs.AsyncQPAccessErr,
	} {
		l := newLink(t)
		q := events(t, l.client.Device())
		l.hosts[1].Fault(t, "fail-qp", l.client.QP().Num(), uint8(why))
		if ev := expect(t, q, want); ev.QP == nil || ev.QP.Num() != l.client.QP().Num() {
			t.Errorf("%+v is not about the client's QP", ev)
		}
		if err := l.write(t, 1); status(err) != verbs.WCWRFlushErr {
			t.Errorf("after %v: %v", want, err)
		}
	}
}

// TestFailNextReceive: a receive that fails ends both sides, each with its own status.
func TestFailNextReceive(t *testing.T) {
	l := newLink(t)
	l.hosts[0].Fault(t, "fail-next-receive", l.server.QP().Num(), uint8(prm.SyndromeLocalProt))
	if err := l.server.PostRecv(7, l.remote.Slice(0, 64)); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Send(within(t), l.local.Slice(0, 1)); status(err) != verbs.WCRemOpErr {
		t.Errorf("the sender: %v", err)
	}
	if wc, err := l.server.WaitRecv(within(t)); status(err) != verbs.WCLocProtErr {
		t.Errorf("the receiver: %+v, %v", wc, err)
	}
}

// TestFailCQ: a CQ that runs over says so by an event.
func TestFailCQ(t *testing.T) {
	l := newLink(t)
	q := events(t, l.client.Device())
	cq := l.client.QP().SendCQ()
	dv, err := mlx5dv.FromCQ(cq)
	if err != nil {
		t.Fatal(err)
	}
	l.hosts[1].Fault(t, "fail-cq", dv.Num())
	if ev := expect(t, q, verbs.AsyncCQErr); ev.CQ != cq {
		t.Errorf("%+v is not about the client's CQ", ev)
	}
}

// TestDrain: a QP that stops to send by itself says so by an event, when it has stopped.
func TestDrain(t *testing.T) {
	l := newLink(t)
	q := events(t, l.client.Device())
	l.hosts[1].Fault(t, "drain", l.client.QP().Num())
	if ev := expect(t, q, verbs.AsyncSQDrained); ev.QP != l.client.QP() {
		t.Errorf("%+v is not about the client's QP", ev)
	}
	if attr, err := l.client.QP().Query(); err != nil || attr.State != verbs.QPSQD || attr.SQDraining {
		t.Errorf("state %v, draining %v: %v", attr.State, attr.SQDraining, err)
	}
}

// TestPort: a cable that is pulled, and plugged in again.
func TestPort(t *testing.T) {
	l := newLink(t)
	dev := l.client.Device()
	q := events(t, dev)
	state := func(want verbs.PortState) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			p, err := dev.QueryPort(1)
			if err != nil {
				t.Fatal(err)
			}
			if p.State == want {
				return
			}
			if time.Since(start) > limit {
				t.Fatalf("the port is %v", p.State)
			}
		}
	}
	state(verbs.PortActive)
	t.Cleanup(func() {
		if t.Failed() {
			p, err := dev.QueryPort(1)
			operstate, _ := os.ReadFile("/sys/class/net/" + l.hosts[1].Interface + "/operstate")
			t.Logf("the port is %v (%v), the network device is %s", p.State, err, operstate)
		}
		l.hosts[1].Fault(t, "port-up")
	})
	l.hosts[1].Fault(t, "port-down")
	if ev := expect(t, q, verbs.AsyncPortErr); ev.Port != 1 {
		t.Errorf("%+v", ev)
	}
	state(verbs.PortDown)
	if err := l.write(t, 1); status(err) != verbs.WCRetryExcErr {
		t.Errorf("without a cable: %v", err)
	}
	l.hosts[1].Fault(t, "port-up")
	expect(t, q, verbs.AsyncPortActive)
	state(verbs.PortActive)
	if err := newLink(t).write(t, 2); err != nil {
		t.Errorf("with the cable again: %v", err)
	}
}

// TestFailCommand: what the firmware refuses comes as an errno, and nothing is left.
func TestFailCommand(t *testing.T) {
	dev, err := verbs.DefaultHost().Open(vmtest.Hosts(t, 1)[0].Device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for status, want := range map[prm.Status]syscall.Errno{
		prm.StatusBadParam: syscall.EINVAL, prm.StatusLimit: syscall.ENOMEM, prm.StatusInternal: syscall.EIO,
	} {
		vmtest.Hosts(t, 1)[0].Fault(t, "fail-command", prm.OpCreateCQ, uint8(status), 0xabcd, 1)
		cq, err := dev.CreateCQ(verbs.CQConfig{})
		if !errors.Is(err, want) {
			t.Errorf("status %#x: %v, want %v", status, err, want)
		}
		if err == nil {
			cq.Close()
		}
		if cq, err = dev.CreateCQ(verbs.CQConfig{}); err != nil {
			t.Fatalf("the next: %v", err)
		}
		cq.Close()
	}
}

// TestNoSuchFault: what cannot be is refused, with its reason.
func TestNoSuchFault(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, words := range [][]any{{"explode"}, {"fail-qp", 0xfffff0, 5}, {"lose"}} {
		if err := h.TryFault(words...); err == nil {
			t.Errorf("%v: no error", words)
		}
	}
}
