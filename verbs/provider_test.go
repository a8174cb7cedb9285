// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/providertest"
)

// TestProvider runs the conformance suite of providers on rxe. The operations that
// need more than a pair have their own tests here.
func TestProvider(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		s := providertest.Suite{
			Pair: func(t testing.TB, cap provider.QPCap) (*providertest.End, *providertest.End) {
				l, r := rt.pair(t, cap)
				return l.bare(t), r.bare(t)
			},
			Ops: []provider.SendOpcode{provider.OpSend, provider.OpSendImm, provider.OpSendInv, provider.OpWrite, provider.OpWriteImm, provider.OpRead,
				provider.OpCompareSwap, provider.OpFetchAdd, provider.OpBindMW, provider.OpLocalInv},
			Delay: 30 * time.Second,
		}
		dev, err := rt.h.Open(rt.a.Device)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		if dev.Attr().CapFlags&abi.IB_UVERBS_DEVICE_ATOMIC_WRITE != 0 {
			s.Ops = append(s.Ops, provider.OpAtomicWrite)
		}
		if dev.Attr().CapFlags&abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL != 0 {
			s.Ops = append(s.Ops, provider.OpFlush)
		}
		s.Run(t)
	})
}

// bare returns what the end's provider made.
func (e *end) bare(t testing.TB) *providertest.End {
	t.Helper()
	mr, err := e.pd.Alloc(providertest.MemSize, everything)
	if err != nil {
		t.Fatal(err)
	}
	closer(t, mr)
	return &providertest.End{
		QP:  e.qp.Provider(),
		CQ:  e.cq.Provider(),
		Mem: &providertest.Memory{Bytes: mr.Bytes(), Addr: mr.Addr(), LKey: mr.LKey(), RKey: mr.RKey()},
	}
}
