// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// repeated creates a key of n pieces that all refer to one memory of size bytes.
func (h *host) repeated(n int, size uint32) uint32 {
	h.t.Helper()
	at := h.alloc(int(size))
	var list []byte
	for range n {
		list = be.AppendUint64(be.AppendUint32(be.AppendUint32(list, size), h.key), at)
	}
	out := h.must(prm.OpCreateMkey, 0x110, list, func(in []byte) {
		c := prm.CreateMkeyIn.Context.Of(in)
		prm.SetMode(c, prm.AccessKLM)
		for _, f := range []prm.Field{prm.MKC.LocalRead, prm.MKC.LocalWrite, prm.MKC.RemoteRead, prm.MKC.RemoteWrite} {
			f.Set(c, 1)
		}
		prm.MKC.QPN.Set(c, prm.AnyQP)
		prm.MKC.PD.Set(c, uint64(h.pd))
		prm.MKC.Length.Set(c, uint64(n)*uint64(size))
		prm.MKC.TranslationOctwords.Set(c, uint64(n))
		prm.CreateMkeyIn.TranslationOctwordsActual.Set(in, uint64(n))
	})
	return uint32(prm.ObjectOut.Number.Get(out)) << 8
}

// postLocked is like post with the fabric's lock held.
func (q *testQP) postLocked(ws ...*wqe) {
	last := q.put(ws...)
	be.PutUint32(q.h.bytes(q.record+4, 4), uint32(q.pi))
	q.h.d.ring(q.h.uar, RegisterSend, last[:8])
}

// TestOneGo posts more than the device executes at once. It must release the lock in between,
// and execute everything.
func TestOneGo(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	const size, requests = 8 << 20, 16
	near, far := p.a.repeated(size>>16, 1<<16), p.b.repeated(size>>16, 1<<16)
	var ws []*wqe
	for range requests {
		ws = append(ws, request1(prm.WQEWrite, signaled, 0).remote(0, far).data(size, near, 0))
	}
	done := 0
	p.locked(func() { // so that it cannot continue yet
		p.qa.postLocked(ws...)
		for p.qa.send.poll() != nil {
			done++
		}
	})
	if done == 0 || done == requests {
		t.Errorf("%d of %d requests were executed at once, want some", done, requests)
	}
	for ; done < requests; done++ {
		if e := p.completion(p.qa.send); prm.CQE.Opcode.Get(e) != prm.CQEReq {
			t.Fatalf("completion = %x, want success", e)
		}
	}
}

// TestOneGoDestroyed destroys a QP with pending requests.
func TestOneGoDestroyed(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.tolerant = true
	const size = 8 << 20
	near, far := p.a.repeated(size>>16, 1<<16), p.b.repeated(size>>16, 1<<16)
	var ws []*wqe
	for range 10 {
		ws = append(ws, request1(prm.WQEWrite, signaled, 0).remote(0, far).data(size, near, 0))
	}
	p.locked(func() {
		p.qa.postLocked(ws...)
		in := make([]byte, 16)
		prm.HeaderIn.Opcode.Set(in, prm.OpDestroyQP)
		prm.ObjectIn.Number.Set(in, uint64(p.qa.n))
		p.a.d.exec(in, 16)
		for p.qa.send.poll() != nil {
		}
	})
	p.nothingMore(p.qa.send)
}

// TestHeldDestroyed destroys a QP while one of its requests waits for the rest of its copy. The
// device must not write to memory that the driver owns again.
func TestHeldDestroyed(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.d.FailNext(p.qa.n, prm.SyndromeLocalQPOp)
	p.locked(func() {
		p.qa.postLocked(request1(prm.WQENop, signaled, 0))
		if p.a.d.uars.objects[p.a.uar].send[0].held == nil {
			t.Error("the request is not held")
		}
		in := make([]byte, 16)
		prm.HeaderIn.Opcode.Set(in, prm.OpDestroyQP)
		prm.ObjectIn.Number.Set(in, uint64(p.qa.n))
		p.a.d.exec(in, 16)
		if len(p.a.d.fabric.force) != 0 {
			t.Error("a destroyed QP is still marked to fail")
		}
	})
	p.nothingMore(p.qa.send)
}

// nothingMore waits for timers, and checks that they have no effect.
func (p *pair) nothingMore(q *testCQ) {
	p.a.t.Helper()
	time.Sleep(5 * holdTime)
	p.locked(q.empty)
}

// TestSteps sends requests with too many pieces of memory, either short pieces or small pages.
func TestSteps(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	const pieces = 1 << 17
	key := p.a.repeated(pieces, 1)
	for _, tc := range []struct {
		segments int
		ok       bool
	}{{3, true}, {6, false}} { // log2 sizes of each piece, or of its page
		w := request1(prm.WQEWrite, signaled, 0).remote(0, p.b.repeated(pieces, 8))
		for range tc.segments {
			w.data(pieces, key, 0)
		}
		p.qa.post(w)
		want(t, p.qa.send, tc.ok, prm.SyndromeLocalProt)
	}
	p = newPair(t, prm.ServiceRC, nil)
	small := p.a.mkey(func(c []byte) { prm.MKC.LogPageSize.Set(c, 0) })
	p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(memoryBase, p.b.key).data(64, small, memoryBase))
	want(t, p.qa.send, false, prm.SyndromeLocalProt)
}

// TestGreatFrame sends a frame that is longer than the maximum.
func TestGreatFrame(t *testing.T) {
	p := newPortOn(t, nil, 1)
	p.tolerant = true
	key := p.repeated(32, 1<<16)
	w := make([]byte, 32)
	prm.Ctrl.Opcode.Set(w, prm.WQESend)
	prm.Ctrl.Index.Set(w, uint64(p.pi))
	prm.Ctrl.QPN.Set(w, uint64(p.sqn))
	p.put(be.AppendUint64(be.AppendUint32(be.AppendUint32(w, 32<<16), key), 0))
	p.sent(prm.SyndromeLocalLength)
	if len(p.violated()) == 0 {
		t.Error("violations = none, want one")
	}
}

// TestPostingOn posts one more request for each completed request, while the device is
// executing them. The device must stop.
func TestPostingOn(t *testing.T) {
	n := 0
	onCompletion := func(post func()) func(Record) {
		return func(r Record) {
			if _, ok := r.(*CompletionRecord); ok {
				n++
				post()
			}
		}
	}
	p := newPair(t, prm.ServiceRC, nil)
	p.qa.receive(memoryBase, 64)
	p.locked(func() {
		p.a.d.cfg.Trace = onCompletion(func() { p.qa.receive(memoryBase, 64) })
		p.a.d.queues.objects[p.qa.n].(*qp).toErr()
		p.a.d.cfg.Trace = nil
	})
	if n != 1 {
		t.Errorf("%d receives were flushed at once, want 1", n)
	}
	n = 0
	e := newPortOn(t, nil, 1)
	e.d.cfg.Trace = onCompletion(func() {
		w := e.bytes(e.sq+uint64(e.pi%64)*64, 64)
		prm.Ctrl.Index.Set(w, uint64(e.pi))
		prm.Ctrl.QPN.Set(w, uint64(e.sqn))
		prm.Ctrl.DS.Set(w, 1)
		prm.Ctrl.Completion.Set(w, prm.CompletionAlways)
		e.pi++
		be.PutUint32(e.bytes(e.record+4, 4), uint32(e.pi))
	})
	e.post(prm.WQENop, nil, nil, nil)
	if n != 1 {
		t.Errorf("%d requests were executed for one doorbell, want 1", n)
	}
}
