// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/providertest"
	"purerdma/verbs"
)

// TestProvider runs the conformance suite of providers on the available driver. Operations that
// need more than a connected pair have separate tests in this package.
func TestProvider(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		s := providertest.Suite{
			Pair: func(t testing.TB, cap provider.QPCap) (*providertest.End, *providertest.End) {
				l, r := rt.pair(t, cap)
				return l.bare(t), r.bare(t)
			},
			Ops:     operations(dev),
			RecvSGE: dev.Attr().MaxRecvSGE,
			Delay:   30 * time.Second,
		}
		s.Run(t)
	})
}

// operations returns the operations that reliable connections of a device support.
func operations(dev *verbs.Device) []provider.SendOpcode {
	ops := []provider.SendOpcode{provider.OpSend, provider.OpSendInv, provider.OpWrite, provider.OpRead}
	f := dev.Features()
	for _, o := range []struct {
		has bool
		ops []provider.SendOpcode
	}{
		{f.Immediate, []provider.SendOpcode{provider.OpSendImm, provider.OpWriteImm}},
		{f.Atomics, []provider.SendOpcode{provider.OpCompareSwap, provider.OpFetchAdd}},
		{f.AtomicWrite, []provider.SendOpcode{provider.OpAtomicWrite}},
		{f.FlushGlobal, []provider.SendOpcode{provider.OpFlush}},
		// provider/rxe builds these two even if the kernel has no windows. iWARP has none.
		{dev.Transport() != verbs.TransportIWARP, []provider.SendOpcode{provider.OpBindMW, provider.OpLocalInv}},
		{f.ReadInv, []provider.SendOpcode{provider.OpReadInv}},
	} {
		if o.has {
			ops = append(ops, o.ops...)
		}
	}
	return ops
}

// bare returns the provider's objects of an end.
func (e *end) bare(t testing.TB) *providertest.End {
	t.Helper()
	mr, err := e.pd.Alloc(providertest.MemSize, everything)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	closer(t, mr)
	return &providertest.End{
		QP:  e.qp.Provider(),
		CQ:  e.cq.Provider(),
		Mem: &providertest.Memory{Bytes: mr.Bytes(), Addr: mr.Addr(), LKey: mr.LKey(), RKey: mr.RKey()},
	}
}
