// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/providertest"
)

// TestProvider runs the conformance suite of providers on QPs that a device in memory connects, with the features of
// each generation of chips.
func TestProvider(t *testing.T) {
	for name, chip := range chips {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, chip)
			s := providertest.Suite{
				Pair: func(t testing.TB, c provider.QPCap) (*providertest.End, *providertest.End) {
					l, p := r.pair(t, c)
					return l.bare(), p.bare()
				},
				Ops: []provider.SendOpcode{provider.OpSend, provider.OpSendImm, provider.OpSendInv, provider.OpWrite, provider.OpWriteImm,
					provider.OpRead, provider.OpCompareSwap, provider.OpFetchAdd},
				Delay: 30 * time.Second,
			}
			s.Run(t)
		})
	}
}

// bare returns the end for the suite.
func (e *end) bare() *providertest.End {
	b, addr, mr := e.rig.memory(e.t, providertest.MemSize)
	return &providertest.End{QP: e.q, CQ: runningCQ{e.c, e.rig.device}, Mem: &providertest.Memory{Bytes: b, Addr: addr, LKey: mr.LKey(), RKey: mr.RKey()}}
}
