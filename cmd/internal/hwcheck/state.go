// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

// stateChecks use states and options of QPs that few programs use.
var stateChecks = []Check{
	{ID: "drain", Title: "send queue drained and continued (SQD)", needs: needsDrainEvent, do: checkDrain},
	{ID: "reset", recorded: true, Title: "QPs reset and connected again, with work left", needs: needsReliableErrors, do: checkQPReset},
	{ID: "ece", Local: true, Title: "options of enhanced connection establishment, on this host", needs: needsECE, do: checkECE},
}

func needsDrainEvent(t *trial) string {
	if t.dev.DriverID() == abi.RDMA_DRIVER_BNXT_RE {
		return "bnxt_re has no event of a drained queue"
	}
	return needsReliableErrors(t)
}

func checkDrain(t *trial) {
	// Once rxe did not send the event, with a short timeout. It may have repeated requests while it drained them.
	l := t.link(Config{Memory: 256 << 10, AckTimeout: patience / 2})
	t.drains(l, func() error {
		return l.qp.Modify(&verbs.QPAttr{State: verbs.QPSQD, EnSQDAsyncNotify: true}, verbs.QPAttrState|verbs.QPAttrEnSQDAsyncNotify)
	})
}

// drains checks that the requests that were posted before the stop complete in order, and that later requests wait.
func (t *trial) drains(l *link, stop func() error) {
	const begun, held, size = 8, 3, 64 << 10
	events, err := l.dev.AsyncEvents()
	t.must("open asynchronous events", err)
	t.later(events.Close)
	post := func(id int) {
		wr := l.write(piece{0, size}, 0)
		wr.ID = uint64(id)
		l.post(signaled(wr))
	}
	for i := range begun {
		post(i)
	}
	if err := stop(); errors.Is(err, syscall.EINVAL) {
		t.skip("the driver does not drain send queues: %v", err)
	} else if err != nil {
		t.fail("move the QP to SQD: %v", err)
	}
	t.wantEvent(events, "the move to SQD", func(e verbs.AsyncEvent) bool { return e.Type == verbs.AsyncSQDrained && e.QP == l.qp })
	attr, err := l.qp.Query()
	t.must("query the QP", err)
	if attr.State != verbs.QPSQD || attr.SQDraining {
		t.fail("QP in state %v, draining %v, after the event, want %v and drained", attr.State, attr.SQDraining, verbs.QPSQD)
	}
	for i := range held {
		post(begun + i)
	}
	var wcs [begun + held]verbs.WC
	time.Sleep(50 * time.Millisecond)
	done, err := l.sendCQ.Poll(wcs[:])
	t.must("poll", err)
	time.Sleep(50 * time.Millisecond)
	more, err := l.sendCQ.Poll(wcs[done:])
	t.must("poll", err)
	if done > begun || more > 0 {
		t.fail("%d of %d requests have completed in SQD, and %d later, want at most %d and none", done, begun+held, more, begun)
	}
	t.note("%d of %d requests completed before the QP returned to RTS", done, begun)
	t.move(l.qp, verbs.QPAttr{State: verbs.QPRTS}, 0)
	copy(wcs[done:], l.sends(begun+held-done))
	l.succeeded("WRITE", wcs[:])
	for i := range wcs {
		if wcs[i].ID != uint64(i) {
			t.fail("completion %d is of request %d", i, wcs[i].ID)
		}
	}
}

func needsECE(t *trial) string {
	if iwarp(t.dev) {
		return "iWARP has no enhanced connection establishment"
	}
	e := t.local()
	own, err := e.qp.QueryECE()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return err.Error()
	case err != nil:
		t.fail("query the options: %v", err)
	case own.Options == 0:
		return "the device has no options"
	}
	return ""
}

func checkECE(t *trial) {
	near, far := t.local(), t.local()
	mtu, err := near.portMTU()
	t.must("query the port", err)
	own, err := near.qp.QueryECE()
	t.must("query the options", err)
	t.note("the device has the options %#x of vendor %#x", own.Options, own.VendorID)
	if err := near.qp.SetECE(verbs.ECE{VendorID: own.VendorID ^ 1, Options: own.Options}); !errors.Is(err, syscall.EINVAL) {
		t.fail("options of another vendor: %v, want EINVAL", err)
	}
	granted := t.agree(far, near, own, mtu)
	if again := t.agree(near, far, granted, mtu); again != granted {
		t.fail("the ends have the options %+v and %+v, want equal options", granted, again)
	}
	if err := within(granted, own); err != nil {
		t.fail("%v", err)
	}
	t.note("the connection has the options %#x", granted.Options)
	for i, size := range []int{1, 64, 5000} {
		t.must("post a receive", far.recv(uint64(i), []piece{{0, size}}))
		fillPattern(near.mr.Bytes()[:size], i)
		_, err := near.qp.PostSend([]verbs.SendWR{signaled(verbs.SendWR{Opcode: verbs.OpSend, SGList: near.elements([]piece{{0, size}})})})
		t.must("post", err)
		t.completed(near.sendCQ, "SEND")
		t.completed(far.recvCQ, "receive")
		if got, want := far.mr.Bytes()[:size], pattern(i, size); string(got) != string(want) {
			t.fail("SEND of %d bytes: %s", size, difference(got, want))
		}
	}
}

// agree connects an end to its peer with the options of the peer, and returns the options that the end then has.
func (t *trial) agree(e, peer *end, offered verbs.ECE, mtu verbs.MTU) verbs.ECE {
	t.must("set the options", e.qp.SetECE(offered))
	t.must("connect", e.join(peer.own, mtu))
	granted, err := e.qp.QueryECE()
	t.must("query the options", err)
	return granted
}

// within returns an error unless all granted options were offered by the same vendor.
func within(granted, offered verbs.ECE) error {
	if granted.VendorID != offered.VendorID || granted.Options&^offered.Options != 0 {
		return fmt.Errorf("granted options %#x of vendor %#x, want some of %#x of vendor %#x", granted.Options, granted.VendorID, offered.Options, offered.VendorID)
	}
	return nil
}
