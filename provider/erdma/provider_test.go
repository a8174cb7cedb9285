// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/providertest"
	"purerdma/uverbs"
)

// TestProvider runs the conformance suite of providers on QPs that a device in memory connects, over
// both transports.
func TestProvider(t *testing.T) {
	for name, node := range map[string]uverbs.NodeType{"iWARP": uverbs.NodeRNIC, "RoCE": uverbs.NodeCA} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, node)
			s := providertest.Suite{
				Pair: func(t testing.TB, c provider.QPCap) (*providertest.End, *providertest.End) {
					l, p := r.connected(t, c), r.connected(t, c)
					l.dev.peer, p.dev.peer = p.dev, l.dev
					return l.bare(), p.bare()
				},
				Ops: []provider.SendOpcode{provider.OpSend, provider.OpSendImm, provider.OpSendInv, provider.OpWrite, provider.OpWriteImm,
					provider.OpRead, provider.OpCompareSwap, provider.OpFetchAdd},
				RecvSGE: maxRecvSGE,
				Delay:   30 * time.Second,
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

// TestInvalidatedKey sends a SEND_WITH_INV. The completion of the receive has the key.
func TestInvalidatedKey(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	l, p := r.connected(t, provider.QPCap{}), r.connected(t, provider.QPCap{})
	l.dev.peer, p.dev.peer = p.dev, l.dev
	for i := range uint64(3) {
		p.recv(i)
		if n, err := l.q.PostSend([]provider.SendWR{{Opcode: provider.OpSendInv, Flags: provider.SendSignaled, InvalidateRKey: 0x01020304}}); n != 1 || err != nil {
			t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
		}
		r.device.run()
		want := provider.WC{ID: i, Opcode: provider.WCRecv, QPNum: p.q.num, Flags: provider.WCWithInv, InvalidatedRKey: 0x01020304}
		if got := p.poll(2); len(got) != 1 || got[0] != want {
			t.Errorf("completions = %+v, want %+v", got, want)
		}
		if got := l.poll(2); len(got) != 1 || got[0].Status != provider.WCSuccess {
			t.Errorf("completions = %+v, want one success", got)
		}
	}
}
