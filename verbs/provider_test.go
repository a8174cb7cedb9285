// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/providertest"
	"purerdma/verbs"
)

// TestProvider runs the conformance suite of providers on whatever driver there is.
// The operations that need more than a pair have their own tests here.
func TestProvider(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		s := providertest.Suite{
			Pair: func(t testing.TB, cap provider.QPCap) (*providertest.End, *providertest.End) {
				l, r := rt.pair(t, cap)
				return l.bare(t), r.bare(t)
			},
			Ops:   operations(dev),
			Delay: 30 * time.Second,
		}
		s.Run(t)
	})
}

// operations are what reliable connections of a device have.
func operations(dev *verbs.Device) []provider.SendOpcode {
	ops := []provider.SendOpcode{provider.OpSend, provider.OpSendInv, provider.OpWrite, provider.OpRead}
	if dev.Transport() == verbs.TransportIWARP {
		return append(ops, provider.OpReadInv)
	}
	ops = append(ops, provider.OpSendImm, provider.OpWriteImm, provider.OpCompareSwap, provider.OpFetchAdd, provider.OpBindMW, provider.OpLocalInv)
	if dev.Attr().CapFlags&abi.IB_UVERBS_DEVICE_ATOMIC_WRITE != 0 {
		ops = append(ops, provider.OpAtomicWrite)
	}
	if dev.Attr().CapFlags&abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL != 0 {
		ops = append(ops, provider.OpFlush)
	}
	return ops
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
