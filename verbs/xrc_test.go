// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// TestXRC sends over one connection to two SRQs of a domain.
func TestXRC(t *testing.T) { mlx5Routes(t, testXRC) }

func testXRC(t *testing.T, rt *route) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	x, err := r.dev.OpenXRCD(nil, 0)
	if err != nil {
		t.Fatalf("Device.OpenXRCD: %v", err)
	}
	closer(t, x)
	var srqs [2]*verbs.SRQ
	var cqs [2]*verbs.CQ
	for i := range srqs {
		cqs[i] = createCQ(t, r.dev, verbs.CQConfig{})
		if srqs[i], err = r.pd.CreateSRQ(verbs.SRQConfig{XRCD: x, CQ: cqs[i]}); err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srqs[i])
		if _, err := srqs[i].PostRecv([]verbs.RecvWR{{ID: 100 + uint64(i), SGList: []verbs.SGE{r.buf.Slice(64*i, 64)}}}); err != nil {
			t.Fatalf("SRQ.PostRecv: %v", err)
		}
	}
	if srqs[0].Num() == 0 || srqs[0].Num() == srqs[1].Num() {
		t.Errorf("numbers of the SRQs = %#x and %#x, want two numbers above zero", srqs[0].Num(), srqs[1].Num())
	}
	send, err := l.pd.CreateQP(verbs.QPConfig{Type: verbs.XRCSend, SendCQ: l.cq})
	if err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	closer(t, send)
	recv, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.XRCRecv, XRCD: x})
	if err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	closer(t, recv)
	if send.RecvCQ() != nil || recv.SendCQ() != nil || recv.RecvCQ() != nil {
		t.Errorf("CQs of the queues that do not exist = %v, %v, %v, want nil", send.RecvCQ(), recv.SendCQ(), recv.RecvCQ())
	}
	connectXRC(t, l, send, recv.Num(), l.to(r.gid))
	connectXRC(t, r, recv, send.Num(), r.to(l.gid))
	for i := range srqs {
		copy(l.buf.Bytes()[64*i:], []byte{byte(i + 1), 2, 3})
		wr := verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, RemoteSRQN: srqs[i].Num(), SGList: []verbs.SGE{l.buf.Slice(64*i, 64)}}
		if n, err := send.PostSend([]verbs.SendWR{wr}); n != 1 || err != nil {
			t.Fatalf("QP.PostSend = %d, %v, want 1, nil", n, err)
		}
		l.ok(t, 1)
		wcs := make([]verbs.WC, 2)
		n, err := cqs[i].Wait(deadline(t), wcs)
		if n != 1 || err != nil || wcs[0].Err() != nil || wcs[0].ID != 100+uint64(i) || wcs[0].ByteLen != 64 || r.buf.Bytes()[64*i] != byte(i+1) {
			t.Errorf("SRQ %d: Wait = %d, %v with %+v, want 1, nil with 64 bytes", i, n, err, wcs[0])
		}
	}
	for _, f := range []func() error{x.Close, cqs[0].Close} {
		if err := f(); err != nil {
			t.Errorf("Close of an object in use = %v, want nil", err)
		}
	}
}

// connectXRC moves one side to RTS.
func connectXRC(t *testing.T, e *end, qp *verbs.QP, peer uint32, to verbs.AHAttr) {
	t.Helper()
	modify(t, qp, verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: everything},
		verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
	rtr := verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN
	rts := verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrSQPSN
	if qp.Type() == verbs.XRCRecv {
		rtr |= verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
	} else {
		rts |= verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrMaxRdAtomic
	}
	modify(t, qp, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: peer, AH: to, MaxDestRdAtomic: 4}, rtr)
	modify(t, qp, verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, MaxRdAtomic: 4}, rts)
}

// TestXRCDomainOfFile opens the domain of a file twice.
func TestXRCDomainOfFile(t *testing.T) { mlx5Routes(t, testXRCDomainOfFile) }

func testXRCDomainOfFile(t *testing.T, rt *route) {
	dev := openDevice(t, rt.h, rt.a.Device)
	f, err := os.Create(filepath.Join(t.TempDir(), "domain"))
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	x, err := dev.OpenXRCD(f, os.O_CREATE)
	if err != nil {
		t.Fatalf("Device.OpenXRCD: %v", err)
	}
	f.Close()
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Errorf("XRCD.Close twice: %v", err)
	}
	if _, err := dev.OpenXRCD(f, os.O_CREATE); err == nil {
		t.Error("OpenXRCD with a closed file succeeded")
	}
}

// TestXRCMistakes checks the errors of invalid configurations.
func TestXRCMistakes(t *testing.T) { mlx5Routes(t, testXRCMistakes) }

func testXRCMistakes(t *testing.T, rt *route) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	x, err := l.dev.OpenXRCD(nil, 0)
	if err != nil {
		t.Fatalf("Device.OpenXRCD: %v", err)
	}
	closer(t, x)
	other, err := r.dev.OpenXRCD(nil, 0)
	if err != nil {
		t.Fatalf("Device.OpenXRCD: %v", err)
	}
	closer(t, other)
	srq, err := l.pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	closer(t, srq)
	if srq.Num() != 0 {
		t.Errorf("Num() of an SRQ outside of XRC = %#x, want 0", srq.Num())
	}
	for name, cfg := range map[string]verbs.QPConfig{
		"domain of RC":        {Type: verbs.RC, XRCD: x},
		"no domain":           {Type: verbs.XRCRecv},
		"another's domain":    {Type: verbs.XRCRecv, XRCD: other},
		"CQ of XRC_RECV":      {Type: verbs.XRCRecv, XRCD: x, SendCQ: l.cq},
		"receive CQ of XRC":   {Type: verbs.XRCSend, RecvCQ: l.cq},
		"SRQ of XRC_SEND":     {Type: verbs.XRCSend, SRQ: srq},
		"another device's CQ": {Type: verbs.XRCSend, SendCQ: r.cq},
	} {
		if _, err := l.pd.CreateQP(cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: PD.CreateQP: error = %v, want EINVAL", name, err)
		}
	}
	for name, cfg := range map[string]verbs.SRQConfig{
		"no CQ":               {XRCD: x},
		"no domain":           {CQ: l.cq},
		"another's domain":    {XRCD: other, CQ: l.cq},
		"another device's CQ": {XRCD: x, CQ: r.cq},
	} {
		if _, err := l.pd.CreateSRQ(cfg); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("SRQ with %s: PD.CreateSRQ: error = %v, want EINVAL", name, err)
		}
	}
	rxe := fakeRoute()
	dev, pd := openPD(t, rxe.h, rxe.a.Device)
	if _, err := dev.OpenXRCD(nil, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("OpenXRCD on rxe = %v, want ErrUnsupported", err)
	}
	for _, typ := range []verbs.QPType{verbs.XRCSend, verbs.RawPacket} {
		if _, err := pd.CreateQP(verbs.QPConfig{Type: typ}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v QP of rxe: PD.CreateQP: error = %v, want errors.ErrUnsupported", typ, err)
		}
	}
}
