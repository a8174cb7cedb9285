// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
)

var patient = retries{14, 7, 7, 12}

// TestLostPackets loses each message once, and each answer once. Programs see no difference.
func TestLostPackets(t *testing.T) {
	n := newNet(t, nil)
	n.k.Fabric.SetPace(100)
	a, b := n.pair(verbs.QPCap{}, patient)
	var count atomic.Int64
	n.k.Fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) {
		switch count.Add(1) % 3 {
		case 1:
			return connectx.Lost, 0
		case 2:
			return connectx.AnswerLost, 0
		}
		return connectx.Arrives, 0
	})
	for i := range 30 {
		op := []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpFetchAdd}[i%3]
		text := []byte{byte(i + 1), 2, 3}
		copy(a.mr.Bytes(), text)
		wr := verbs.SendWR{ID: uint64(i), Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.Slice(0, 3)}, RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey()}
		at := 64
		switch op {
		case verbs.OpSend:
			b.recv(verbs.RecvWR{SGList: []verbs.SGE{b.mr.Slice(128, 64)}})
			at = 128
		case verbs.OpFetchAdd:
			wr.SGList[0].Length, wr.CompareAdd, wr.RemoteAddr = 8, 1, b.mr.Addr()+256
		}
		a.send(wr)
		if err := a.wait(1)[0].Err(); err != nil {
			t.Fatalf("completion of request %d: %v", i, err)
		}
		switch op {
		case verbs.OpFetchAdd:
			if got := b.mr.Bytes()[256]; got != byte(i/3+1) {
				t.Fatalf("word after %d atomics = %d, want %d", i/3+1, got, i/3+1)
			}
			continue
		case verbs.OpSend:
			if err := b.wait(1)[0].Err(); err != nil {
				t.Fatalf("completion of the receive for request %d: %v", i, err)
			}
		}
		if got := b.mr.Bytes()[at:][:3]; string(got) != string(text) {
			t.Fatalf("message %d = %v, want %v", i, got, text)
		}
	}
	if c := count.Load(); c != 90 {
		t.Errorf("messages on the fabric = %d, want 90", c)
	}
}

// TestStatuses makes requests fail with each syndrome of a card, and checks the statuses of the completions.
func TestStatuses(t *testing.T) {
	for s, want := range map[prm.Syndrome]verbs.WCStatus{
		prm.SyndromeLocalLength: verbs.WCLocLenErr, prm.SyndromeLocalQPOp: verbs.WCLocQPOpErr, prm.SyndromeLocalProt: verbs.WCLocProtErr,
		prm.SyndromeFlush: verbs.WCWRFlushErr, prm.SyndromeMWBind: verbs.WCMWBindErr, prm.SyndromeBadResponse: verbs.WCBadRespErr,
		prm.SyndromeLocalAccess: verbs.WCLocAccessErr, prm.SyndromeRemoteInvalid: verbs.WCRemInvReqErr, prm.SyndromeRemoteAccess: verbs.WCRemAccessErr,
		prm.SyndromeRemoteOp: verbs.WCRemOpErr, prm.SyndromeRetryExceeded: verbs.WCRetryExcErr, prm.SyndromeRNRRetryExceeded: verbs.WCRNRRetryExcErr,
		prm.SyndromeRemoteAborted: verbs.WCRemAbortErr, 0x77: verbs.WCGeneralErr,
	} {
		n := newNet(t, nil)
		a, _ := n.pair(verbs.QPCap{}, patient)
		n.k.Device("mlx5_0").FailNext(a.qp.Num(), s)
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, InlineData: []byte("x")}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, InlineData: []byte("x")})
		wcs := a.wait(2)
		if wcs[0].ID != 1 || wcs[0].Status != want || wcs[1].ID != 2 || wcs[1].Status != verbs.WCWRFlushErr {
			t.Errorf("syndrome %#x: statuses = %v, %v, want %v, %v", s, wcs[0].Status, wcs[1].Status, want, verbs.WCWRFlushErr)
		}
		if attr, err := a.qp.Query(); err != nil || attr.State != verbs.QPErr {
			t.Errorf("syndrome %#x: Query = %+v, %v, want state %v", s, attr, err, verbs.QPErr)
		}
	}
}

// TestGivenUp sends to a peer that does not answer, and to a peer without a receive.
func TestGivenUp(t *testing.T) {
	for _, tc := range []struct {
		r    retries
		lose bool
		want verbs.WCStatus
	}{{retries{8, 3, 7, 1}, true, verbs.WCRetryExcErr}, {retries{14, 7, 3, 1}, false, verbs.WCRNRRetryExcErr}} {
		n := newNet(t, nil)
		a, _ := n.pair(verbs.QPCap{}, tc.r)
		var tries atomic.Int64
		n.k.Fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) {
			tries.Add(1)
			if tc.lose {
				return connectx.Lost, 0
			}
			return connectx.Arrives, 0
		})
		a.send(verbs.SendWR{ID: 1, Opcode: verbs.OpSend, InlineData: []byte("x")})
		if s := a.wait(1)[0].Status; s != tc.want || tries.Load() != 4 {
			t.Errorf("status = %v after %d tries, want %v after 4", s, tries.Load(), tc.want)
		}
	}
}

// TestEvents causes every failure that programs receive as an event.
func TestEvents(t *testing.T) {
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{}, patient)
	events := a.events()
	others := b.events()
	hca := n.k.Device("mlx5_0")
	next := func(what string, want verbs.AsyncEvent) {
		t.Helper()
		ev, err := events.Next(deadline(t))
		if err != nil || ev != want {
			t.Errorf("event after %s = %+v, %v, want %+v", what, ev, err, want)
		}
	}
	hca.SetPort(false)
	next("link down", verbs.AsyncEvent{Type: verbs.AsyncPortErr, Port: 1})
	hca.SetPort(true)
	next("link up", verbs.AsyncEvent{Type: verbs.AsyncPortActive, Port: 1})
	qpn := func(data []byte) { prm.EventQPN.Set(data, uint64(a.qp.Num())) }
	// The device only sends the events, without a migration.
	hca.Event(prm.EventPathMigrated, 0, qpn)
	next("path", verbs.AsyncEvent{Type: verbs.AsyncPathMig, QP: a.qp})
	hca.Event(prm.EventPathMigFail, 0, qpn)
	next("no path", verbs.AsyncEvent{Type: verbs.AsyncPathMigErr, QP: a.qp})
	hca.FailQP(a.qp.Num(), prm.EventWQCatas)
	next("QP", verbs.AsyncEvent{Type: verbs.AsyncQPFatal, QP: a.qp})
	hca.Event(prm.EventWQInvalidReq, 0, qpn)
	next("invalid request", verbs.AsyncEvent{Type: verbs.AsyncQPReqErr, QP: a.qp})
	hca.FailCQ(1)
	next("CQ", verbs.AsyncEvent{Type: verbs.AsyncCQErr, CQ: a.cq})
	n.k.Device("mlx5_1").SetPort(false)
	if ev, err := others.Next(deadline(t)); err != nil || ev.Type != verbs.AsyncPortErr {
		t.Errorf("first event of the other device = %+v, %v, want %v", ev, err, verbs.AsyncPortErr)
	}
}

// TestDrained makes a device stop sending. The program then makes it continue, and the requests that were posted
// in between complete. A program cannot stop it, as on any mlx5.
func TestDrained(t *testing.T) {
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{}, patient)
	events := a.events()
	if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPSQD}, verbs.QPAttrState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Modify to SQD = %v, want EINVAL", err)
	}
	if !n.k.Device("mlx5_0").Drain(a.qp.Num()) {
		t.Fatal("Drain() = false, want true")
	}
	if ev, err := events.Next(deadline(t)); err != nil || ev != (verbs.AsyncEvent{Type: verbs.AsyncSQDrained, QP: a.qp}) {
		t.Fatalf("event = %+v, %v, want %v", ev, err, verbs.AsyncSQDrained)
	}
	if attr, err := a.qp.Query(); err != nil || attr.State != verbs.QPSQD || attr.SQDraining {
		t.Errorf("Query = state %v, draining %v, %v, want %v without draining", attr.State, attr.SQDraining, err, verbs.QPSQD)
	}
	b.recv(verbs.RecvWR{ID: 1, SGList: []verbs.SGE{b.mr.Slice(0, 64)}})
	a.send(verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("later")})
	wcs := make([]verbs.WC, 1)
	for range 100 {
		if k, err := a.cq.Poll(wcs); k != 0 || err != nil {
			t.Fatalf("Poll in SQD = %d, %v, want no completion", k, err)
		}
		runtime.Gosched()
	}
	if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS, CurState: verbs.QPSQD}, verbs.QPAttrState|verbs.QPAttrCurState); err != nil {
		t.Fatalf("a.qp.Modify: %v", err)
	}
	if wc := a.wait(1)[0]; wc.ID != 2 || wc.Err() != nil {
		t.Errorf("completion after SQD = %+v, want success of request 2", wc)
	}
	if wc := b.wait(1)[0]; wc.ByteLen != 5 || string(b.mr.Bytes()[:5]) != "later" {
		t.Errorf("receive after SQD = %+v, want 5 bytes \"later\"", wc)
	}
}

// TestFatal makes the firmware fail while a program waits for completions. The event comes, the wait ends as
// after a removal, all calls fail, and all objects can be closed. The driver has not removed the device yet.
func TestFatal(t *testing.T) {
	n := newNet(t, nil)
	a, _ := n.pair(verbs.QPCap{}, patient)
	events := a.events()
	waited := make(chan error)
	for range 3 {
		go func() {
			_, err := a.cq.Wait(deadline(t), make([]verbs.WC, 1))
			waited <- err
		}()
	}
	n.k.Device("mlx5_0").Fatal(prm.HealthFirmware)
	if ev, err := events.Next(deadline(t)); err != nil || ev.Type != verbs.AsyncDeviceFatal {
		t.Errorf("event = %+v, %v, want %v", ev, err, verbs.AsyncDeviceFatal)
	}
	failed := func(what string, err error) {
		t.Helper()
		if gone, ok := errors.AsType[*verbs.DeviceRemovedError](err); !ok || !gone.Fatal || !strings.Contains(err.Error(), "fatal error") {
			t.Errorf("%s = %v, want a DeviceRemovedError of a fatal error", what, err)
		}
	}
	for range 3 {
		failed("Wait", <-waited)
	}
	select {
	case <-a.dev.Done():
	case <-deadline(t).Done():
		t.Fatal("Done() is not closed after a fatal error")
	}
	_, err := events.Next(deadline(t))
	failed("the next event", err)
	_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
	failed("PostSend", err)
	_, err = a.qp.PostRecv([]verbs.RecvWR{{}})
	failed("PostRecv", err)
	_, err = a.cq.Poll(make([]verbs.WC, 1))
	failed("Poll", err)
	_, err = a.dev.AllocPD()
	failed("AllocPD", err)
}

// TestFailingCommands makes commands fail. The call returns an errno, and the library destroys the objects of
// earlier commands of the call.
func TestFailingCommands(t *testing.T) {
	n := newNet(t, nil)
	a := n.end("mlx5_0", verbs.QPConfig{})
	hca := n.k.Device("mlx5_0")
	for _, tc := range []struct {
		opcode uint16
		status prm.Status
		want   error
		do     func() error
	}{
		{prm.OpAllocPD, prm.StatusNoResources, syscall.EAGAIN, func() error { _, err := a.dev.AllocPD(); return err }},
		{prm.OpCreateCQ, prm.StatusLimit, syscall.ENOMEM, func() error { _, err := a.dev.CreateCQ(verbs.CQConfig{}); return err }},
		{prm.OpCreateQP, prm.StatusBadParam, syscall.EINVAL, func() error {
			_, err := a.pd.CreateQP(verbs.QPConfig{SendCQ: a.cq, RecvCQ: a.cq})
			return err
		}},
		{prm.OpCreateRMP, prm.StatusNoResources, syscall.EAGAIN, func() error { _, err := a.pd.CreateSRQ(verbs.SRQConfig{}); return err }},
		{prm.OpCreateMkey, prm.StatusBadSysState, syscall.EIO, func() error { _, err := a.pd.Alloc(4096, verbs.LocalWrite); return err }},
		{prm.OpModifyCQ, prm.StatusBadSize, syscall.EINVAL, func() error { return a.cq.Resize(100) }},
		{prm.OpRst2Init, prm.StatusBadQPState, syscall.EINVAL, func() error {
			return a.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
		}},
	} {
		hca.FailCommand(tc.opcode, tc.status, 0x1234, 1)
		if err := tc.do(); !errors.Is(err, tc.want) {
			t.Errorf("call with a failing %s = %v, want %v", connectx.CommandName(tc.opcode), err, tc.want)
		}
	}
}
