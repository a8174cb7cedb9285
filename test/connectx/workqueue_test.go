// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// TestSQErrors checks that an invalid request ends the queue, and that the remaining requests
// are flushed.
func TestSQErrors(t *testing.T) {
	f := NewFabric()
	for what, tc := range map[string]struct {
		post func(p *testPort)
		want prm.Syndrome
	}{
		"key": {func(p *testPort) {
			key := p.key
			p.key ^= 1
			p.post(prm.WQESend, nil, nil, []byte("xxxx"))
			p.key = key
		}, prm.SyndromeLocalProt},
		"opcode": {func(p *testPort) { p.post(prm.WQEWrite, nil, nil, []byte("xxxx")) }, prm.SyndromeLocalQPOp},
		"inline": {func(p *testPort) {
			p.post(prm.WQESend, func(e []byte) { prm.EthernetSeg.InlineSize.Set(e, 200) }, nil, nil)
		}, prm.SyndromeLocalQPOp},
		"inline segment": {func(p *testPort) {
			p.postInline(make([]byte, 60), 61)
		}, prm.SyndromeLocalQPOp},
		"no segment": {func(p *testPort) {
			w := make([]byte, 16)
			prm.Ctrl.Opcode.Set(w, prm.WQESend)
			prm.Ctrl.Index.Set(w, uint64(p.pi))
			prm.Ctrl.QPN.Set(w, uint64(p.sqn))
			p.put(w)
		}, prm.SyndromeLocalQPOp},
		"LSO without headers": {func(p *testPort) {
			p.post(prm.WQELSO, func(e []byte) { prm.EthernetSeg.MSS.Set(e, 100) }, nil, make([]byte, 300))
		}, prm.SyndromeLocalQPOp},
	} {
		p := newPortOn(t, f, 1)
		p.tolerant = true
		tc.post(p)
		p.sent(tc.want)
		if len(p.violated()) == 0 {
			t.Errorf("%s: violations = none, want some", what)
		}
		p.post(prm.WQENop, nil, nil, nil)
		p.sent(prm.SyndromeFlush)
		out := p.must(prm.OpQuerySQ, 16, nil, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(p.sqn)) })
		if s := prm.SQC.State.Get(prm.CreateContextIn.Context.Of(out)); s != prm.QueueError {
			t.Errorf("%s: state = %d, want error", what, s)
		}
		// Recover like mlx5e.
		p.state(prm.OpModifySQ, p.sqn, prm.QueueError, prm.QueueReset)
		p.pi = 0
		be.PutUint32(p.bytes(p.record+4, 4), 0)
		p.state(prm.OpModifySQ, p.sqn, prm.QueueReset, prm.QueueReady)
		p.post(prm.WQENop, nil, nil, nil)
		p.sent(0)
	}
}

// TestRQErrors checks the errors of receives.
func TestRQErrors(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	b.tolerant = true
	b.key ^= 1
	r := b.rq(3, nil)
	b.all(b.tir(nil, r))
	a.post(prm.WQESend, nil, nil, a.frame(b, ethernet.UDP, []byte("x")))
	e := r.cq.poll()
	if e == nil || prm.CQE.Opcode.Get(e) != prm.CQERespErr || prm.Syndrome(prm.CQE.Syndrome.Get(e)) != prm.SyndromeLocalProt {
		t.Fatalf("completion = %x, want a local protection error", e)
	}
	b.state(prm.OpModifyRQ, r.n, prm.QueueError, prm.QueueError)
	for range 2 {
		if e := r.cq.poll(); e == nil || prm.Syndrome(prm.CQE.Syndrome.Get(e)) != prm.SyndromeFlush {
			t.Errorf("completion = %x, want flush", e)
		}
	}
	if r.cq.poll() != nil {
		t.Error("more completions than receives")
	}
}

func TestQueueMistakes(t *testing.T) {
	p := newPortOn(t, nil, 1)
	r := p.rq(0, nil)
	create := func(op uint16, change func(c []byte)) error {
		_, err := p.command(op, 0x20+prm.QueueContextSize, pages(p.sq, PageSize), func(in []byte) {
			c := prm.CreateContextIn.Context.Of(in)
			prm.SQC.CQN.Set(c, uint64(p.cq.n))
			p.wq(prm.SQC.WQ.Of(c), 6, 6, p.record)
			if op == prm.OpCreateSQ {
				prm.SQC.TIS.Set(c, uint64(p.tis))
				prm.SQC.TISListSize.Set(c, 1)
				prm.WQ.UARPage.Set(prm.SQC.WQ.Of(c), uint64(p.uar))
			}
			change(c)
		})
		return err
	}
	wq := func(f prm.Field, v uint64) func(c []byte) { return func(c []byte) { f.Set(prm.SQC.WQ.Of(c), v) } }
	for what, tc := range map[string]struct {
		err  error
		want prm.Status
	}{
		"SQ with a CQ that is not there":   {create(prm.OpCreateSQ, func(c []byte) { prm.SQC.CQN.Set(c, 0xfff) }), prm.StatusBadResource},
		"SQ with a TIS that is not there":  {create(prm.OpCreateSQ, func(c []byte) { prm.SQC.TIS.Set(c, 0xfff) }), prm.StatusBadResource},
		"SQ with a page that is not there": {create(prm.OpCreateSQ, wq(prm.WQ.UARPage, 0xfff)), prm.StatusBadResource},
		"RQ with a PD that is not there":   {create(prm.OpCreateRQ, wq(prm.WQ.PD, 0xfff)), prm.StatusBadResource},
		"RQ of a linked list":              {create(prm.OpCreateRQ, wq(prm.WQ.Type, prm.WQLinkedList)), prm.StatusBadParam},
		"RQ with a record at 3":            {create(prm.OpCreateRQ, wq(prm.WQ.DBRAddr, 3)), prm.StatusBadParam},
		"RQ that is too long":              {create(prm.OpCreateRQ, wq(prm.WQ.LogSize, 31)), prm.StatusBadParam},
		"RQ with too few pages":            {create(prm.OpCreateRQ, wq(prm.WQ.LogSize, 7)), prm.StatusBadParam},
		"RQ with strides of 8 bytes":       {create(prm.OpCreateRQ, wq(prm.WQ.LogStride, 3)), prm.StatusBadParam},
		"SQ with strides of 32 bytes":      {create(prm.OpCreateSQ, wq(prm.WQ.LogStride, 5)), prm.StatusBadParam},
		"RQ with an RMP's memory":          {create(prm.OpCreateRQ, func(c []byte) { prm.RQC.MemType.Set(c, 1) }), prm.StatusBadParam},
		"SQ that is not there":             {p.modifyState(prm.OpModifySQ, r.n+1000, 0, 1), prm.StatusBadResource},
		"RQ that is not there":             {p.modifyState(prm.OpModifyRQ, p.sqn+1000, 0, 1), prm.StatusBadResource},
		"SQ from a state it is not in":     {p.modifyState(prm.OpModifySQ, p.sqn, prm.QueueReset, prm.QueueReady), prm.StatusBadResState},
		"RQ to a state that is not there":  {p.modifyState(prm.OpModifyRQ, r.n, prm.QueueReady, 2), prm.StatusBadParam},
		"TIS in use":                       {p.on(prm.OpDestroyTIS, p.tis), prm.StatusResourceBusy},
		"domain in use":                    {p.on(prm.OpDeallocTransportDomain, p.domain), prm.StatusResourceBusy},
		"CQ in use":                        {p.on(prm.OpDestroyCQ, p.cq.n), prm.StatusResourceBusy},
		"QP's command on an SQ":            {p.on(prm.OpDestroyQP, p.sqn), prm.StatusBadResource},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", what, tc.err, tc.want)
		}
	}
	for _, err := range []error{p.on(prm.OpDestroySQ, p.sqn), p.on(prm.OpDestroyRQ, r.n), p.on(prm.OpDestroyTIS, p.tis),
		p.on(prm.OpDeallocTransportDomain, p.domain), p.on(prm.OpDestroyCQ, p.cq.n)} {
		if err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
}
