// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"

	"purerdma/test/connectx/prm"
)

// umrWQE returns a UMR of a key, with a control segment and a context from change, and a
// translation.
func umrWQE(key uint32, change func(ctrl, c []byte), list []byte) *wqe {
	w := request1(prm.WQEUMR, signaled, key)
	ctrl, c := make([]byte, prm.UMRCtrlLen), make([]byte, prm.MkeyLen)
	if len(list) > 0 {
		prm.UMRCtrl.Inline.Set(ctrl, 1)
		prm.UMRCtrl.Octowords.Set(ctrl, uint64(len(list)/16))
	}
	change(ctrl, c)
	w.b = append(append(append(w.b, ctrl...), c...), list...)
	return w
}

// emptyKey creates a free key with n octowords of translation.
func (h *host) emptyKey(mode uint64, n uint64, change func(c []byte)) uint32 {
	h.t.Helper()
	out := h.must(prm.OpCreateMkey, 0x110, nil, func(in []byte) {
		c := prm.CreateMkeyIn.Context.Of(in)
		prm.SetMode(c, mode)
		prm.MKC.Free.Set(c, 1)
		prm.MKC.UMREnabled.Set(c, 1)
		prm.MKC.LocalRead.Set(c, 1)
		prm.MKC.QPN.Set(c, prm.AnyQP)
		prm.MKC.Key.Set(c, 0x11)
		prm.MKC.PD.Set(c, uint64(h.pd))
		prm.MKC.TranslationOctwords.Set(c, n)
		if change != nil {
			change(c)
		}
	})
	return uint32(prm.ObjectOut.Number.Get(out))<<8 | 0x11
}

// TestRegisterByUMR registers pages with a request, from the request and from memory. It uses
// them and invalidates them.
func TestRegisterByUMR(t *testing.T) {
	for _, inline := range []bool{true, false} {
		p := newPair(t, prm.ServiceRC, nil)
		key := p.b.emptyKey(prm.AccessMTT, 2, nil)
		buf := p.b.alloc(3 * 4096)
		// In reverse order, at a separate address.
		var list []byte
		for _, page := range []uint64{2, 1, 0} {
			list = be.AppendUint64(list, buf+page*4096|prm.MTTRead|prm.MTTWrite)
		}
		list = be.AppendUint64(list, 0)
		const start = 1<<40 + 0x800
		register := func(ctrl, c []byte) {
			prm.UMRCtrl.CheckFree.Set(ctrl, prm.UMRCheckFree)
			prm.UMRCtrl.Mask.Set(ctrl, prm.MaskLength|prm.MaskPageSize|prm.MaskStartAddr|prm.MaskKey|prm.MaskRemoteWrite|prm.MaskLocalWrite|prm.MaskFree)
			prm.MKC.StartAddr.Set(c, start)
			prm.MKC.Length.Set(c, 2*4096)
			prm.MKC.LogPageSize.Set(c, 12)
			prm.MKC.Key.Set(c, 0x22)
			prm.MKC.LocalWrite.Set(c, 1)
			prm.MKC.RemoteWrite.Set(c, 1)
		}
		w := umrWQE(key, register, list)
		if !inline {
			at := p.b.alloc(64)
			copy(p.b.bytes(at, 64), list)
			w = umrWQE(key, func(ctrl, c []byte) {
				register(ctrl, c)
				prm.UMRCtrl.Octowords.Set(ctrl, 2)
			}, nil).data(32, p.b.key, at)
		}
		p.qb.post(w)
		p.qb.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.SendOpcode: prm.WQEUMR})
		key = key&^0xff | 0x22
		text := make([]byte, 200) // crosses a page boundary
		for i := range text {
			text[i] = byte(i + 1)
		}
		src := p.a.alloc(4096)
		copy(p.a.bytes(src, 200), text)
		p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(start+0x800-100, key).data(200, p.a.key, src))
		p.qa.send.want(prm.CQEReq, nil)
		if string(p.b.bytes(buf+2*4096+4096-100, 100)) != string(text[:100]) || string(p.b.bytes(buf+4096, 100)) != string(text[100:]) {
			t.Error("the WRITE did not change the memory of the key")
		}
		p.qb.post(umrWQE(key, func(ctrl, c []byte) {
			prm.UMRCtrl.CheckFree.Set(ctrl, prm.UMRCheckNotFree)
			prm.UMRCtrl.Mask.Set(ctrl, prm.MaskFree)
			prm.MKC.Free.Set(c, 1)
		}, nil))
		p.qb.send.want(prm.CQEReq, nil)
		p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(start, key).data(8, p.a.key, src))
		want(t, p.qa.send, false, prm.SyndromeRemoteAccess)
	}
}

// TestUMRErrors posts requests with forbidden changes.
func TestUMRErrors(t *testing.T) {
	free := func(ctrl, c []byte) { prm.UMRCtrl.Mask.Set(ctrl, prm.MaskFree) }
	for name, tc := range map[string]struct {
		made   func(c []byte)
		key    uint32 // xored to the key
		change func(ctrl, c []byte)
		list   []byte
		want   prm.Syndrome
	}{
		"no key":                      {key: 0x123400, change: free, want: prm.SyndromeMWBind},
		"old variant":                 {made: func(c []byte) { prm.MKC.Free.Set(c, 0) }, key: 1, change: free, want: prm.SyndromeMWBind},
		"old variant of what is free": {key: 1, change: free},
		"not for UMR":                 {made: func(c []byte) { prm.MKC.UMREnabled.Set(c, 0) }, change: free, want: prm.SyndromeMWBind},
		"is free":                     {change: func(ctrl, c []byte) { free(ctrl, c); prm.UMRCtrl.CheckFree.Set(ctrl, prm.UMRCheckNotFree) }, want: prm.SyndromeMWBind},
		"not free": {made: func(c []byte) { prm.MKC.Free.Set(c, 0) },
			change: func(ctrl, c []byte) { free(ctrl, c); prm.UMRCtrl.CheckFree.Set(ctrl, prm.UMRCheckFree) }, want: prm.SyndromeMWBind},
		"another QP's":    {change: func(ctrl, c []byte) { free(ctrl, c); prm.UMRCtrl.CheckQPN.Set(ctrl, 1) }, want: prm.SyndromeMWBind},
		"too many pages":  {change: free, list: make([]byte, 16*5), want: prm.SyndromeMWBind},
		"translation cut": {change: func(ctrl, c []byte) { free(ctrl, c); prm.UMRCtrl.Octowords.Set(ctrl, 9) }, list: make([]byte, 16), want: prm.SyndromeLocalQPOp},
		"good":            {change: free, list: make([]byte, 16*4)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			p.qa.post(umrWQE(p.a.emptyKey(prm.AccessMTT, 4, tc.made)^tc.key, tc.change, tc.list))
			want(t, p.qa.send, tc.want == 0, tc.want)
		})
	}
}

// TestWindow binds a window of type 2, uses it, and lets the peer invalidate it.
func TestWindow(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	window := p.b.emptyKey(prm.AccessKLM, 4, func(c []byte) { prm.MKC.RemoteInvalidate.Set(c, 1) })
	buf := p.b.alloc(4096)
	klm := be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, 100), p.b.key), buf+50)
	p.qb.post(umrWQE(window, func(ctrl, c []byte) {
		prm.UMRCtrl.CheckFree.Set(ctrl, prm.UMRCheckFree)
		prm.UMRCtrl.Mask.Set(ctrl, prm.MaskLength|prm.MaskStartAddr|prm.MaskKey|prm.MaskQPN|prm.MaskRemoteWrite|prm.MaskLocalWrite|prm.MaskFree)
		prm.MKC.QPN.Set(c, uint64(p.qb.n))
		prm.MKC.Key.Set(c, 0x33)
		prm.MKC.StartAddr.Set(c, 7000)
		prm.MKC.Length.Set(c, 100)
		prm.MKC.RemoteWrite.Set(c, 1)
	}, append(klm, make([]byte, 48)...)))
	p.qb.send.want(prm.CQEReq, nil)
	window = window&^0xff | 0x33
	if err := p.b.on(prm.OpDestroyMkey, p.b.key>>8); err == nil {
		t.Error("DESTROY_MKEY of memory with a window = nil error")
	}
	p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(7090, window).inline([]byte("in a windo")))
	p.qa.send.want(prm.CQEReq, nil)
	if string(p.b.bytes(buf+140, 10)) != "in a windo" {
		t.Error("the WRITE did not change the memory of the window")
	}
	p.qb.receive(buf, 10)
	p.qa.post(request1(prm.WQESendInv, signaled, window).inline([]byte("bye")))
	p.qa.send.want(prm.CQEReq, nil)
	p.qb.recv.want(prm.CQERespInv, map[*prm.Field]uint64{&prm.CQE.Imm: uint64(window)})
	p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(7000, window).inline([]byte("x")))
	want(t, p.qa.send, false, prm.SyndromeRemoteAccess)
}

// TestWindowRights binds a window to memory without write access, and a window that peers must
// not invalidate.
func TestWindowRights(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	readOnly := p.b.mkey(func(c []byte) { prm.MKC.LocalWrite.Set(c, 0) })
	buf := p.b.alloc(4096)
	for name, tc := range map[string]struct {
		wqe  func(window uint32) *wqe
		want prm.Syndrome
	}{
		"write":      {func(w uint32) *wqe { return request1(prm.WQEWrite, signaled, 0).remote(0, w).inline([]byte("x")) }, prm.SyndromeRemoteAccess},
		"invalidate": {func(w uint32) *wqe { return request1(prm.WQESendInv, signaled, w).inline([]byte("x")) }, prm.SyndromeRemoteInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			p.qa.again(p.qb)
			window := p.b.emptyKey(prm.AccessKLM, 4, nil)
			klm := be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, 100), readOnly), buf)
			p.qb.post(umrWQE(window, func(ctrl, c []byte) {
				prm.UMRCtrl.Mask.Set(ctrl, prm.MaskLength|prm.MaskStartAddr|prm.MaskRemoteWrite|prm.MaskFree)
				prm.MKC.Length.Set(c, 100)
				prm.MKC.RemoteWrite.Set(c, 1)
			}, append(klm, make([]byte, 48)...)))
			p.qb.send.want(prm.CQEReq, nil)
			p.qb.receive(buf, 64)
			p.qa.post(tc.wqe(window))
			want(t, p.qa.send, false, tc.want)
		})
	}
}

// TestIndirection uses keys that refer to keys, and a key that refers to itself.
func TestIndirection(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	indirect := func(list []byte, length uint64) uint32 {
		out := p.a.must(prm.OpCreateMkey, 0x110, list, func(in []byte) {
			c := prm.CreateMkeyIn.Context.Of(in)
			prm.SetMode(c, prm.AccessKLM)
			for _, f := range []prm.Field{prm.MKC.LocalRead, prm.MKC.LocalWrite, prm.MKC.UMREnabled} {
				f.Set(c, 1)
			}
			prm.MKC.QPN.Set(c, prm.AnyQP)
			prm.MKC.PD.Set(c, uint64(p.a.pd))
			prm.MKC.Length.Set(c, length)
			n := uint64(len(list) / 16)
			prm.MKC.TranslationOctwords.Set(c, n)
			prm.CreateMkeyIn.TranslationOctwordsActual.Set(in, n)
		})
		return uint32(prm.ObjectOut.Number.Get(out)) << 8
	}
	key, addr := p.a.key, p.a.alloc(4096)
	for depth := range maxIndirection + 2 {
		p.qa.post(request1(prm.WQERead, signaled, 0).remote(memoryBase, p.b.key).data(8, key, addr))
		want(t, p.qa.send, depth <= maxIndirection, prm.SyndromeLocalProt)
		klm := be.AppendUint64(be.AppendUint32(be.AppendUint32(nil, 64), key), addr)
		key, addr = indirect(klm, 64), 0
	}
	// The look-up of a key whose pieces are the key itself ends.
	p = newPair(t, prm.ServiceRC, nil)
	var list []byte
	self := (p.a.d.mkeys.last + 1) << 8
	for range 1 << 12 {
		list = be.AppendUint64(be.AppendUint32(be.AppendUint32(list, 1), self), 0)
	}
	if got := indirect(list, 1<<12); got != self {
		t.Fatalf("key = %#x, want %#x", got, self)
	}
	p.qa.post(request1(prm.WQERead, signaled, 0).remote(memoryBase, p.b.key).data(1<<12, self, 0))
	want(t, p.qa.send, false, prm.SyndromeLocalProt)
}

// TestTranslationsEnd creates keys until the device has no memory for their translations, and
// removes one.
func TestTranslationsEnd(t *testing.T) {
	h := newHost(t, nil, 1)
	h.d.cfg.Trace = nil
	cq := h.cq(4, nil)
	q := h.qp(prm.ServiceRC, cq, cq, nil)
	q.connect(q.n, h.gid, nil)
	const octowords = maxTranslation / 2
	last := uint32(0)
	bind := func() bool { // the last entry of a new key
		last = h.emptyKey(prm.AccessKLM, octowords, nil)
		q.post(umrWQE(last, func(ctrl, c []byte) {
			prm.UMRCtrl.Mask.Set(ctrl, prm.MaskFree)
			prm.UMRCtrl.OffsetEnabled.Set(ctrl, 1)
			prm.UMRCtrl.Offset.Set(ctrl, octowords-1)
			prm.UMRCtrl.OffsetHigh.Set(ctrl, (octowords-1)>>16)
		}, make([]byte, 16)))
		return prm.CQE.Opcode.Get(cq.poll()) == prm.CQEReq
	}
	n := 0
	for ; n <= maxTranslations/octowords && bind(); n++ {
	}
	if want := maxTranslations/octowords - 1; n != want { // the host's own key uses some
		t.Fatalf("%d keys have memory, want %d", n, want)
	}
	if err := h.on(prm.OpDestroyMkey, last>>8-1); err != nil {
		t.Fatalf("h.on(OpDestroyMkey): %v", err)
	}
	h.must(prm.Op2Rst, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(q.n)) })
	q.pi = 0
	clear(h.bytes(q.record, 8))
	for cq.poll() != nil {
	}
	q.connect(q.n, h.gid, nil)
	if !bind() {
		t.Error("the memory of a destroyed key is not available")
	}
}

// TestUMRChangesPD posts a program's request to move a key to another PD. Only the kernel may
// do this, and only to an existing PD.
func TestUMRChangesPD(t *testing.T) {
	h := newHost(t, nil, 1)
	other := uint64(h.object(prm.OpAllocPD))
	for _, tc := range []struct {
		service, pd uint64
		ok          bool
	}{{prm.ServiceRC, other, false}, {prm.ServiceRegU, 0x7777, false}, {prm.ServiceRegU, other, true}} {
		cq := h.cq(4, nil)
		q := h.qp(tc.service, cq, cq, nil)
		q.connect(q.n, h.gid, nil)
		key := h.emptyKey(prm.AccessKLM, 1, nil)
		q.post(umrWQE(key, func(ctrl, c []byte) {
			prm.UMRCtrl.Mask.Set(ctrl, prm.MaskPD)
			prm.MKC.PD.Set(c, tc.pd)
		}, nil))
		want(t, cq, tc.ok, prm.SyndromeMWBind)
	}
}
