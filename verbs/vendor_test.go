// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// TestVendor sends over a transport that only one vendor supports, with objects of package
// verbs.
func TestVendor(t *testing.T) { mlx5Routes(t, testVendor) }

func testVendor(t *testing.T, rt *route) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	closer(t, srq)
	target, err := mlx5dv.From(r.dev)
	if err != nil {
		t.Fatalf("mlx5dv.From: %v", err)
	}
	if _, err := target.CreateDCT(mlx5dv.DCTConfig{PD: l.pd, CQ: r.cq, SRQ: srq}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateDCT with the PD of another device = %v, want EINVAL", err)
	}
	dct, err := target.CreateDCT(mlx5dv.DCTConfig{PD: r.pd, CQ: r.cq, SRQ: srq, Key: 0xbeef})
	if err != nil {
		t.Fatalf("Device.CreateDCT: %v", err)
	}
	closer(t, dct)
	initiator, err := mlx5dv.From(l.dev)
	if err != nil {
		t.Fatalf("mlx5dv.From: %v", err)
	}
	dci, err := initiator.CreateDCI(mlx5dv.DCIConfig{PD: l.pd, CQ: l.cq, Cap: verbs.QPCap{SendWR: 4, SendSGE: 1}})
	if err != nil {
		t.Fatalf("Device.CreateDCI: %v", err)
	}
	closer(t, dci)
	var op *verbs.OpError
	if n, err := dci.Post([]mlx5dv.DCWR{{}}); n != 0 || !errors.As(err, &op) || op.Object != l.dev.Name() {
		t.Errorf("Post in RESET = %d, %v, want an OpError of %s", n, err, l.dev.Name())
	}
	move := func(q interface {
		Modify(*verbs.QPAttr, verbs.QPAttrMask) error
	}, a verbs.QPAttr, mask verbs.QPAttrMask) {
		t.Helper()
		if err := q.Modify(&a, mask|verbs.QPAttrState); err != nil {
			t.Fatalf("Modify: %v", err)
		}
	}
	move(dct, verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: everything}, verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
	move(dct, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, MinRNRTimer: 12, AH: r.to(l.gid)}, verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrMinRNRTimer)
	move(dci, verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrPKeyIndex|verbs.QPAttrPort)
	move(dci, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, AH: l.to(r.gid)}, verbs.QPAttrPathMTU|verbs.QPAttrAV)
	move(dci, verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 4},
		verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrMaxRdAtomic|verbs.QPAttrSQPSN)
	if _, err := srq.PostRecv([]verbs.RecvWR{{ID: 9, SGList: []verbs.SGE{r.buf.Slice(0, 64)}}}); err != nil {
		t.Fatalf("SRQ.PostRecv: %v", err)
	}
	ah, err := l.pd.CreateAH(l.to(r.gid))
	if err != nil {
		t.Fatalf("PD.CreateAH: %v", err)
	}
	closer(t, ah)
	copy(l.buf.Bytes(), "to whom it concerns")
	wr := mlx5dv.DCWR{Key: 0xbeef, SendWR: verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ah, RemoteQPN: dct.Num(), SGList: []verbs.SGE{l.buf.Slice(0, 64)}}}
	if n, err := dci.Post([]mlx5dv.DCWR{wr}); n != 1 || err != nil {
		t.Fatalf("DCI.Post = %d, %v, want 1, nil", n, err)
	}
	l.ok(t, 1)
	if got := r.ok(t, 1)[9]; got.ByteLen != 64 || got.QPNum != dct.Num() || string(r.buf.Bytes()[:19]) != "to whom it concerns" {
		t.Errorf("completion of the receive = %+v with bytes %q, want 64 bytes of the DCT", got, r.buf.Bytes()[:19])
	}
}

// TestVendorParents closes the PD, the CQ and the SRQ of a DC target before the target. They
// are destroyed when the target is closed.
func TestVendorParents(t *testing.T) {
	rt := mlx5Route(t)
	dev := openDevice(t, rt.h, rt.a.Device)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("Device.AllocPD: %v", err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	d, err := mlx5dv.From(dev)
	if err != nil {
		t.Fatalf("mlx5dv.From: %v", err)
	}
	dct, err := d.CreateDCT(mlx5dv.DCTConfig{PD: pd, CQ: cq, SRQ: srq})
	if err != nil {
		t.Fatalf("Device.CreateDCT: %v", err)
	}
	for _, c := range []interface{ Close() error }{pd, cq, srq, dct, dct} {
		if err := c.Close(); err != nil {
			t.Errorf("Close of a %T: %v", c, err)
		}
	}
	if _, err := d.CreateDCT(mlx5dv.DCTConfig{PD: pd, CQ: cq, SRQ: srq}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CreateDCT on a closed PD = %v, want %v", err, net.ErrClosed)
	}
}

// TestVendorRemoval removes the device of a DC target. Calls return a DeviceRemovedError, and
// Close succeeds.
func TestVendorRemoval(t *testing.T) {
	k := inprocess.New(inprocess.Config{}, "mlx5_0")
	h := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
	dev := openDevice(t, h, "mlx5_0")
	pd := must(dev.AllocPD())(t)
	cq := must(dev.CreateCQ(verbs.CQConfig{}))(t)
	srq := must(pd.CreateSRQ(verbs.SRQConfig{}))(t)
	d := must(mlx5dv.From(dev))(t)
	dct := must(d.CreateDCT(mlx5dv.DCTConfig{PD: pd, CQ: cq, SRQ: srq}))(t)
	k.Remove("mlx5_0")
	var removed *verbs.DeviceRemovedError
	if err := dct.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess); !errors.As(err, &removed) {
		t.Errorf("Modify = %v, want a DeviceRemovedError", err)
	}
	if _, err := d.CreateDCT(mlx5dv.DCTConfig{PD: pd, CQ: cq, SRQ: srq}); !errors.As(err, &removed) {
		t.Errorf("CreateDCT = %v, want a DeviceRemovedError", err)
	}
	for _, c := range []interface{ Close() error }{dct, srq, cq, pd} {
		if err := c.Close(); err != nil {
			t.Errorf("Close of a %T: %v", c, err)
		}
	}
}
