// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"

	"purerdma/provider"
	"purerdma/uverbs"
)

// TestMostRequests fills the largest queues.
func TestMostRequests(t *testing.T) {
	const most = 8192
	e := newRig(t, uverbs.NodeRNIC).connected(t, provider.QPCap{SendWR: most, RecvWR: most})
	if c := e.q.Cap(); c.SendWR != most || c.RecvWR != most {
		t.Errorf("QP.Cap() = %+v, want %d requests and receives", c, most)
	}
	sends := slices.Repeat([]provider.SendWR{{Opcode: provider.OpSend}}, most+1)
	if n, err := e.q.PostSend(sends); n != most || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend = %d, %v, want %d, ErrFull", n, err, most)
	}
	if n, err := e.q.PostRecv(make([]provider.RecvWR, most+1)); n != most || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostRecv = %d, %v, want %d, ErrFull", n, err, most)
	}
}

// TestLengths checks the length of requests with several elements.
func TestLengths(t *testing.T) {
	e := newRig(t, uverbs.NodeRNIC).connected(t, provider.QPCap{SendWR: 4})
	wr := provider.SendWR{Opcode: provider.OpSend, SGList: []provider.SGE{{Length: 40000}, {Length: 40000}}}
	if n, err := e.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
		t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
	}
	if got := little32(e.q.sq.block(0), sqeLength); got != 80000 {
		t.Errorf("length of the request = %d, want 80000", got)
	}
	wr.SGList = []provider.SGE{{Length: math.MaxUint32 - 1}, {Length: 1}}
	if err := e.q.sq.check(&wr); err != nil {
		t.Errorf("check of the longest message = %v, want nil", err)
	}
	wr.SGList[1].Length++
	if err := e.q.sq.check(&wr); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("check of a message of 4 GiB = %v, want EMSGSIZE", err)
	}
}

// TestOtherFlags posts requests with flags that the adapter does not have, and that do not change the request.
func TestOtherFlags(t *testing.T) {
	for name, wr := range map[string]provider.SendWR{
		"one element":  {Opcode: provider.OpSend, SGList: make([]provider.SGE, 1)},
		"two elements": {Opcode: provider.OpSend, SGList: make([]provider.SGE, 2)},
		"inline":       {Opcode: provider.OpSend, InlineData: []byte{1}},
	} {
		e := newRig(t, uverbs.NodeRNIC).connected(t, provider.QPCap{SendWR: 4})
		var heads [2]uint32
		for i, flags := range []provider.SendFlags{provider.SendSignaled, provider.SendSignaled | ^provider.SendFlags(7)} {
			at := e.q.sq.pi
			wr.Flags = flags
			if n, err := e.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
				t.Fatalf("%s: PostSend = %d, %v, want 1, nil", name, n, err)
			}
			heads[i] = little32(e.q.sq.block(at), 0) &^ 0xffff
		}
		if heads[1] != heads[0] {
			t.Errorf("%s: first word with other flags = %#x, want %#x", name, heads[1], heads[0])
		}
	}
}

// TestCompletionOfAnOpenBatch has the device complete a request that is built and not posted, after usual completions.
func TestCompletionOfAnOpenBatch(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.connected(t, provider.QPCap{SendWR: 4})
	d := r.device.cqs[e.c.handle]
	e.send(1, 2)
	for i := range uint16(2) {
		d.add(cqe{op: opSend, index: i, qp: e.q.num})
		if got := ids(e.poll(1)); !slices.Equal(got, []uint64{uint64(i) + 1}) {
			t.Fatalf("completed IDs = %v, want %d", got, i+1)
		}
	}
	e.q.BatchBegin()
	if err := e.q.BatchAdd(&provider.SendWR{ID: 3, Opcode: provider.OpSend}); err != nil {
		t.Fatalf("QP.BatchAdd: %v", err)
	}
	d.add(cqe{op: opSend, index: 2, qp: e.q.num})
	if got := e.c.requests(make([]provider.WC, 1)); got != 0 {
		t.Errorf("requests = %d completions, want 0", got)
	}
	e.q.BatchDiscard()
}
