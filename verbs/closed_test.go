// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestCallsOnClosedObjects checks that each call on a closed object returns net.ErrClosed. This
// includes calls that run a command, because the kernel may have reused the handle for another
// object. A second Close returns no error.
func TestCallsOnClosedObjects(t *testing.T) { fullRoutes(t, testClosed) }

func testClosed(t *testing.T, rt *route) {
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	dev, pd := openPD(t, rt.h, rt.a.Device)
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	ch, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatalf("Device.CreateCompChannel: %v", err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Channel: ch})
	if err != nil {
		t.Fatalf("Device.CreateCQ: %v", err)
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	mw, err := pd.AllocMW(verbs.MWType2)
	if err != nil {
		t.Fatalf("PD.AllocMW: %v", err)
	}
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	ah, err := pd.CreateAH(e.to(e.gid))
	if err != nil {
		t.Fatalf("PD.CreateAH: %v", err)
	}
	q, err := dev.AsyncEvents()
	if err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	for _, o := range []interface{ Close() error }{q, ah, qp, srq, mw, mr, cq, ch, pd, dev} {
		for n := range 2 {
			if err := o.Close(); err != nil {
				t.Errorf("Close of %T, call %d: %v", o, n+1, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	wcs := make([]verbs.WC, 1)
	rights := verbs.LocalWrite
	var b verbs.Batch
	b.Reset(qp)
	batch := func() error { b.SendInline(1, nil, 0); return b.Post() }
	second := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"Device.AllocPD":           second(dev.AllocPD()),
		"Device.CreateCQ":          second(dev.CreateCQ(verbs.CQConfig{})),
		"Device.CreateChannel":     second(dev.CreateCompChannel()),
		"Device.OpenXRCD":          second(dev.OpenXRCD(nil, 0)),
		"PD.Alloc":                 second(pd.Alloc(1, 0)),
		"PD.RegMR":                 second(pd.RegMR(make([]byte, 1), 0)),
		"PD.RegDMABuf":             second(pd.RegDMABuf(-1, 0, 1, 0, 0)),
		"PD.CreateQP":              second(pd.CreateQP(verbs.QPConfig{})),
		"PD.CreateSRQ":             second(pd.CreateSRQ(verbs.SRQConfig{})),
		"PD.CreateAH":              second(pd.CreateAH(verbs.AHAttr{Port: 1})),
		"PD.AllocMW":               second(pd.AllocMW(verbs.MWType1)),
		"PD.Advise":                pd.Advise(verbs.Prefetch, true, e.buf.SGE()),
		"MR.Reregister":            mr.Reregister(verbs.MRChange{Access: &rights}),
		"CompChannel.Next":         second(ch.Next(ctx)),
		"CQ.Poll":                  second(cq.Poll(wcs)),
		"CQ.Wait":                  second(cq.Wait(ctx, wcs)),
		"CQ.Arm":                   cq.Arm(false),
		"CQ.Resize":                cq.Resize(10),
		"CQ.Moderate":              cq.Moderate(1, 0),
		"SRQ.PostRecv":             second(srq.PostRecv(make([]verbs.RecvWR, 1))),
		"SRQ.Modify":               srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit),
		"SRQ.Query":                second(srq.Query()),
		"QP.Modify":                qp.Modify(&verbs.QPAttr{State: verbs.QPInit}, verbs.QPAttrState),
		"QP.Query":                 second(qp.Query()),
		"QP.QueryECE":              second(qp.QueryECE()),
		"QP.SetECE":                qp.SetECE(verbs.ECE{VendorID: 0x15b3}),
		"QP.PostSend":              second(qp.PostSend(make([]verbs.SendWR, 1))),
		"QP.PostRecv":              second(qp.PostRecv(make([]verbs.RecvWR, 1))),
		"QP.AttachMulticast":       qp.AttachMulticast(verbs.GID{0: 0xff}, 0),
		"QP.DetachMulticast":       qp.DetachMulticast(verbs.GID{0: 0xff}, 0),
		"AsyncEvents.Next":         second(q.Next(ctx)),
		"Batch.Post":               batch(),
		"a QP with a closed CQ":    second(e.pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})),
		"a QP with a closed SRQ":   second(e.pd.CreateQP(verbs.QPConfig{SRQ: srq})),
		"a CQ of a closed channel": second(e.dev.CreateCQ(verbs.CQConfig{Channel: ch})),
		"memory to a closed PD":    e.buf.Reregister(verbs.MRChange{PD: pd}),
	} {
		if name == "Device.OpenXRCD" && !rt.mlx5 && errors.Is(err, errors.ErrUnsupported) {
			continue // an unsupported feature is reported first
		}
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s of a closed object = %v, want net.ErrClosed", name, err)
		}
	}
}
