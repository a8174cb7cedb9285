// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/provider"
	"purerdma/provider/providertest"
	"purerdma/verbs"
)

// TestProviderConnected runs the conformance suite of providers on whatever driver
// there is, with connections of the connection manager: iWARP knows no others.
func TestProviderConnected(t *testing.T) {
	ln, d := ends(t)
	s := providertest.Suite{
		Pair: func(t testing.TB, cap provider.QPCap) (*providertest.End, *providertest.End) {
			return providerPair(t, ln, d, cap)
		},
		Ops:   []provider.SendOpcode{provider.OpSend, provider.OpSendInv, provider.OpWrite, provider.OpRead},
		Delay: 30 * time.Second,
	}
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dev := r.Device()
	if dev.Transport() == verbs.TransportIWARP {
		s.Ops = append(s.Ops, provider.OpReadInv)
	} else {
		s.Ops = append(s.Ops, provider.OpSendImm, provider.OpWriteImm, provider.OpCompareSwap, provider.OpFetchAdd, provider.OpBindMW, provider.OpLocalInv)
		for bit, op := range map[int]provider.SendOpcode{38: provider.OpFlush, 40: provider.OpAtomicWrite} { // IB_UVERBS_DEVICE_...
			if dev.Attr().CapFlags>>bit&1 != 0 {
				s.Ops = append(s.Ops, op)
			}
		}
	}
	r.Close()
	s.Run(t)
}

func providerPair(t testing.TB, ln *cm.Listener, d *cm.Dialer, cap provider.QPCap) (l, r *providertest.End) {
	t.Helper()
	type accepted struct {
		end *providertest.End
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		req, err := ln.Accept(t.Context())
		if err != nil {
			got <- accepted{err: err}
			return
		}
		qp, end, err := providerEnd(t, req.Device(), cap)
		if err == nil {
			var conn *cm.Conn
			if conn, err = req.Accept(t.Context(), qp, nil); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		}
		got <- accepted{end, err}
	}()
	res, err := d.Resolve(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	qp, l, err := providerEnd(t, res.Device(), cap)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := res.Connect(t.Context(), qp, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	return l, a.end
}

// providerEnd makes a QP and what it needs.
func providerEnd(t testing.TB, dev *verbs.Device, cap provider.QPCap) (*verbs.QP, *providertest.End, error) {
	keep := func(c interface{ Close() error }) {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, nil, err
	}
	keep(pd)
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		return nil, nil, err
	}
	keep(cq)
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, Cap: cap})
	if err != nil {
		return nil, nil, err
	}
	keep(qp)
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	if dev.Transport() != verbs.TransportIWARP {
		access |= verbs.RemoteAtomic
	}
	mr, err := pd.Alloc(providertest.MemSize, access)
	if err != nil {
		return nil, nil, err
	}
	keep(mr)
	return qp, &providertest.End{
		QP:  qp.Provider(),
		CQ:  cq.Provider(),
		Mem: &providertest.Memory{Bytes: mr.Bytes(), Addr: mr.Addr(), LKey: mr.LKey(), RKey: mr.RKey()},
	}, nil
}
