// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"purerdma/internal/bridge"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// TestVendorCQ creates a CQ with options that only mlx5 supports.
func TestVendorCQ(t *testing.T) {
	fake := fakeRoute()
	dev := openDevice(t, fake.h, fake.a.Device)
	if _, err := mlx5dv.From(dev); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("From an rxe device = %v, want %v", err, errors.ErrUnsupported)
	}
	if _, err := mlx5dv.FromCQ(createCQ(t, dev, verbs.CQConfig{})); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("FromCQ of an rxe device = %v, want %v", err, errors.ErrUnsupported)
	}

	vendor := bridge.VendorFunctions.(*bridge.Vendor[*verbs.Device, *verbs.PD, *verbs.CQ, *verbs.SRQ, verbs.CQConfig])
	if _, err := vendor.CreateCQ(dev, verbs.CQConfig{}, &mlx5dv.CQOptions{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateCQ of rxe with options of mlx5 = %v, want EINVAL", err)
	}

	k := mlx5test.New("mlx5_0")
	h := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
	dev = openDevice(t, h, "mlx5_0")
	d, err := mlx5dv.From(dev)
	if err != nil {
		t.Fatalf("mlx5dv.From: %v", err)
	}
	cq, err := d.CreateCQ(verbs.CQConfig{Unlocked: true}, &mlx5dv.CQOptions{EntrySize: 128})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	closer(t, cq)
	if size := k.CQs()[0].CQESize; size != 128 {
		t.Errorf("CQESize = %d bytes, want 128", size)
	}
	if n, err := cq.PollExtended(make([]mlx5dv.Completion, 4)); n != 0 || err != nil {
		t.Errorf("PollExtended = %d, %v, want 0, nil", n, err)
	}
}

// TestEventsCounted checks that a CQ is armed again after each event with the next sequence
// number. A device treats two requests with the same number as one request.
func TestEventsCounted(t *testing.T) {
	armed := make(chan uint32, 16) // the values written to the register
	rt := tracedRoute(t, func(r connectx.Record) {
		if d, ok := r.(*connectx.DoorbellRecord); ok && d.Device == "mlx5_1" && d.Offset == connectx.RegisterCQ {
			armed <- binary.BigEndian.Uint32(d.Bytes)
		}
	})
	l, r := rt.pair(t, verbs.QPCap{})
	ctx := deadline(t)
	for n := range uint32(9) {
		if err := r.cq.Arm(false); err != nil {
			t.Fatalf("CQ.Arm(false): %v", err)
		}
		if got := <-armed >> prm.ArmSequenceShift; got != n&3 {
			t.Fatalf("sequence number after %d events = %d, want %d", n, got, n&3)
		}
		r.recv(t, verbs.RecvWR{ID: 1})
		l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		if cq, err := r.cq.Channel().Next(ctx); cq != r.cq || err != nil {
			t.Fatalf("Next = %p, %v, want %p, nil", cq, err, r.cq)
		}
		wcs := make([]verbs.WC, 4)
		if k, err := r.cq.Poll(wcs); k != 1 || err != nil || wcs[0].Err() != nil {
			t.Fatalf("Poll = %d, %v with completion %+v, want 1, nil and success", k, err, wcs[0])
		}
		l.ok(t, 1)
	}
}
