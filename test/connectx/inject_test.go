// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// TestForced makes requests fail with every syndrome.
func TestForced(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	for s := prm.Syndrome(1); s < 0x30; s++ {
		if !p.a.d.FailNext(p.qa.n, s) {
			t.Fatal("FailNext of an existing QP = false")
		}
		p.qa.post(request1(prm.WQESend, 0, 0).inline(nil))
		want(t, p.qa.send, false, s)
		p.qa.again(p.qb)
	}
	if p.a.d.FailNext(p.qa.n+1, 1) {
		t.Error("FailNext of a missing QP = true")
	}
}

// TestFailing makes objects fail.
func TestFailing(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.qa.receive(p.a.alloc(64), 64)
	if !p.a.d.FailQP(p.qa.n, prm.EventWQCatas) {
		t.Error("FailQP of an existing QP = false")
	}
	p.a.wantEvent(prm.EventWQCatas, p.qa.n)
	p.locked(func() { p.qa.recv.want(prm.CQERespErr, nil) })
	if !p.b.d.FailCQ(p.qb.send.n) {
		t.Error("FailCQ of an existing CQ = false")
	}
	if v := p.b.next(p.b.eq); v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventCQError) {
		t.Errorf("event = %x, want a CQ error", v)
	}
	p.b.d.Event(prm.EventSRQLimit, 0, func(data []byte) { prm.EventQPN.Set(data, 9) })
	p.b.wantEvent(prm.EventSRQLimit, 9)
	if p.a.d.FailQP(9, prm.EventWQCatas) || p.a.d.FailCQ(99) {
		t.Error("FailQP or FailCQ of a missing object = true")
	}
}

// TestFailCommand makes commands fail.
func TestFailCommand(t *testing.T) {
	h := newHost(t, nil, 1)
	h.d.FailCommand(prm.OpAllocPD, prm.StatusNoResources, 0xabc, 2)
	for i, want := range []prm.Status{prm.StatusNoResources, prm.StatusNoResources, prm.StatusOK} {
		out, err := h.command(prm.OpAllocPD, 16, nil, nil)
		if got := prm.Status(prm.HeaderOut.Status.Get(out)); got != want || want != prm.StatusOK && prm.HeaderOut.Syndrome.Get(out) != 0xabc {
			t.Errorf("command %d = %v", i, err)
		}
	}
}

// TestFatal makes the firmware fail, and resets it.
func TestFatal(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.d.Fatal(prm.HealthFirmware)
	if _, err := p.a.command(prm.OpAllocPD, 16, nil, nil); !errors.Is(err, statusError(prm.StatusInternal)) {
		t.Errorf("command after Fatal = %v, want INTERNAL_ERR", err)
	}
	p.qb.post(request1(prm.WQESend, 0, 0).inline(nil))
	if s := prm.CQE.Syndrome.Get(p.completion(p.qb.send)); s != uint64(prm.SyndromeRetryExceeded) {
		t.Errorf("syndrome = %#x, want retry exceeded", s)
	}
	f := NewFunction(p.a.d)
	var seg [4096]byte
	f.ReadRegion(0, 0, seg[:])
	if s := prm.InitSegment.HealthSyndrome.Get(seg[:]); s != prm.HealthFirmware {
		t.Errorf("health syndrome = %#x", s)
	}
	f.WriteRegion(0, 0x14, []byte{0, 0, prm.NICInterfaceSWReset, 0})
	f.ReadRegion(0, 0, seg[:])
	if s := prm.InitSegment.HealthSyndrome.Get(seg[:]); s != 0 || prm.InitSegment.NICInterface.Get(seg[:]) != prm.NICInterfaceDisabled {
		t.Errorf("health syndrome after the driver's reset = %#x, want 0", s)
	}
	p.a.d.Fatal(prm.HealthHardware)
	f.Reset()
	f.ReadRegion(0, 0, seg[:])
	if s := prm.InitSegment.HealthSyndrome.Get(seg[:]); s != 0 {
		t.Errorf("health syndrome after a reset = %#x, want 0", s)
	}
}

// TestRemove removes the device.
func TestRemove(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	f := NewFunction(p.a.d)
	p.a.d.Remove()
	ones := bytes.Repeat([]byte{0xff}, 64)
	if out := p.a.d.Exec(make([]byte, 16), 64); !bytes.Equal(out, ones) {
		t.Errorf("Exec after Remove = %x, want ones", out)
	}
	var b [64]byte
	for _, region := range []int{0, pci.ConfigRegion} {
		f.ReadRegion(region, 0, b[:])
		if !bytes.Equal(b[:], ones) {
			t.Errorf("ReadRegion(%d) = %x, want ones", region, b)
		}
		f.WriteRegion(region, 0, b[:4])
	}
	p.qa.post(request1(prm.WQESend, signaled, 0).inline(nil))
	p.qa.send.empty()
	p.qb.post(request1(prm.WQESend, 0, 0).inline(nil))
	if s := prm.CQE.Syndrome.Get(p.completion(p.qb.send)); s != uint64(prm.SyndromeRetryExceeded) {
		t.Errorf("syndrome = %#x, want retry exceeded", s)
	}
}

// TestTrace checks the trace of one message.
func TestTrace(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.qb.receive(p.b.alloc(64), 64)
	p.a.records, p.b.records = nil, nil
	p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("traced")))
	all := strings.Join(append(p.a.records, p.b.records...), "\n")
	for _, want := range []string{
		"hca doorbell page 0x8+0x800 0000000a00004002 record 0000000000000001",
		"hca request 0x0 of RC QP 0x40: 0000000a00004002000000080000000080000006747261636564",
		"hca packet 0x40 to \"hcb\" QP 0x40: operation 0xa PSN 0xfffff0, 6 bytes",
		"hca completion 0 of CQ 0x1: opcode 0x0 QP 0x40 WQE 0x0 6 bytes",
		"hcb receive 0x0 of QP 0x40 from QP 0x40: 00000040",
		"hcb completion 0 of CQ 0x2: opcode 0x2 QP 0x40 WQE 0x0 6 bytes",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("trace lacks %q:\n%s", want, all)
		}
	}
	p.a.on(prm.OpDeallocPD, p.a.object(prm.OpAllocPD))
	if got, want := p.a.records[len(p.a.records)-1], "hca command DEALLOC_PD in 16 out 1024: 0000000000000000 of 08010000000000000000"; !strings.HasPrefix(got, want) {
		t.Errorf("trace of a command = %q, want %q", got, want)
	}
	if err := p.a.on(prm.OpDeallocPD, 99); err == nil || !strings.Contains(p.a.records[len(p.a.records)-1], "hca command DEALLOC_PD in 16 out 1024: there is no PD 0x63: BAD_RESOURCE, syndrome 0x") {
		t.Errorf("trace of the rejection %v = %q", err, p.a.records[len(p.a.records)-1])
	}
}

// TestForcedReceive makes receives fail with every syndrome.
func TestForcedReceive(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	dst := p.b.alloc(64)
	for s := prm.Syndrome(1); s < 0x30; s++ {
		if !p.b.d.FailNextReceive(p.qb.n, s) || p.b.d.FailNextReceive(p.qb.n+1, s) {
			t.Fatal("FailNextReceive = false for an existing QP, or true for a missing one")
		}
		p.qb.receive(dst, 64)
		p.qa.post(request1(prm.WQESend, 0, 0).inline([]byte("x")))
		want(t, p.qa.send, false, prm.SyndromeRemoteOp)
		p.qb.recv.want(prm.CQERespErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(s)})
		p.qa.again(p.qb)
	}
	p.qb.receive(dst, 64)
	p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("x")))
	p.qa.send.want(prm.CQEReq, nil)
}
