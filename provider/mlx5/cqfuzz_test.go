// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"purerdma/provider"
)

// hostile is a device that does with one CQ whatever data encodes. It writes arbitrary bytes
// into the ring in any order, and completes requests that were not posted. At the same time the
// program posts, polls, resizes and resets QPs.
type hostile struct {
	*cqRig
	fuzzInput
	qps  []*QP
	srqs []*SRQ
	lkey uint32 // of 64 bytes, from address 0
}

// fuzzInput is the input of a fuzz target.
type fuzzInput struct{ data []byte }

// next returns the next byte, 0 after the last.
func (f *fuzzInput) next() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

// run executes one step. It returns false if the CQ has failed.
func (h *hostile) run() bool {
	r, t := h.cqRig, h.t
	q := h.qps[int(h.next())%len(h.qps)]
	switch op := h.next() % 16; op {
	case 0: // random bytes at a random position of the ring
		b := r.dev.Buf
		at, n := int(h.next())*7%len(b), int(h.next())
		copy(b[at:], h.data[:min(len(h.data), n)])
	case 1, 2, 3, 4, 5, 6, 7: // an entry of one of the QPs
		h.entry(q)
	case 8:
		if q.sq.pending != nil && q.sq.head-q.sq.tail <= q.sq.mask {
			q.sendPosted(1, provider.WCBindMW)
		}
	case 9:
		q.rq.lock.Lock()
		q.rq.post([]provider.RecvWR{{ID: 1, SGList: []provider.SGE{{Addr: 5, Length: uint32(h.next()), LKey: uint32(h.next())}}}})
		q.rq.lock.Unlock()
	case 10:
		h.srqs[int(h.next())%len(h.srqs)].PostRecv(make([]provider.RecvWR, 1+h.next()%4))
	case 11:
		r.cq.purgeQP(q)
	case 12:
		if h.next()%4 == 0 {
			// The new ring may have less room than there are entries, or the old ring may have
			// no valid entries.
			r.cq.Resize(1 << (h.next() % 8))
			if r.cq.region != nil && r.dev.Entries() != int(r.cq.mask)+1 && r.cq.err == nil {
				t.Fatalf("Entries of the CQ = %d, want %d as the device", r.cq.mask+1, r.dev.Entries())
			}
		}
	case 13:
		cs := make([]Completion, h.next()%8)
		n, err := r.cq.PollExtended(cs)
		return h.polled(n, len(cs), err)
	default:
		wcs := make([]provider.WC, h.next()%40)
		n, err := r.cq.Poll(wcs)
		for _, wc := range wcs[:n] {
			if wc.QPNum>>24 != 0 {
				t.Fatalf("completion = %+v, want a QP number of 24 bits", wc)
			}
		}
		return h.polled(n, len(wcs), err)
	}
	return true
}

// polled checks the results of a poll.
func (h *hostile) polled(n, most int, err error) bool {
	if n < 0 || n > most || n > 0 && err != nil {
		h.t.Fatalf("Poll = %d, %v, want at most %d, and an error only without completions", n, err, most)
	}
	if err == nil {
		return true
	}
	bad := new(CQEError)
	if !errors.As(err, &bad) || bad.CQ != h.cq.num {
		h.t.Fatalf("Poll = %v, want a CQEError of CQ %#x", err, h.cq.num)
	}
	if !h.driver.Strict && !strings.Contains(bad.Reason, "resized queue") {
		h.t.Fatalf("Poll of a CQ that is not strict: %v", err)
	}
	if n, again := h.cq.Poll(make([]provider.WC, 4)); n != 0 || again != err {
		h.t.Fatalf("second Poll = %d, %v, want 0 and the same error", n, again)
	}
	return false
}

// entry writes an entry of one of the QPs, mostly the next entry and mostly a valid one.
func (h *hostile) entry(q *QP) {
	c := h.cq
	if c.err != nil {
		return // the CQ no longer owns the ring
	}
	i := c.ci
	for i-c.ci < c.mask && c.ours(i, lastWord(c.entry(i))) {
		i++
	}
	if h.next()%16 == 0 {
		i += uint32(h.next())
	}
	op := []uint8{cqeReq, cqeReq, cqeReq, cqeReq, cqeRespSend, cqeRespSend, cqeRespWrImm, cqeRespSendImm, cqeRespSendInv, cqeReqErr,
		cqeRespErr, cqeRespErr, cqeRespSend, cqeReq, cqeResize, h.next() & 15}[h.next()%16]
	format := []uint8{0, 0, 0, 0, 0, 1, 2, 3}[h.next()%8]
	sge := provider.SGE{Addr: uint64(h.next() % 80), Length: uint32(h.next() % 80), LKey: h.lkey}
	e := c.entry(i)
	opcode, index := h.next()&0x1f, q.index
	var counter uint16
	switch {
	case op == cqeReq || op == cqeReqErr:
		if q.sq.pending != nil && q.sq.head-q.sq.tail <= q.sq.mask {
			opcode = []uint8{opcodeRead, opcodeAtomicCS, opcodeWrite, opcode}[h.next()%4]
			counter = q.readWQE(opcode, 1, sge, sge, sge)
		}
	case q.srq == nil:
		q.rq.lock.Lock()
		q.rq.post([]provider.RecvWR{{ID: 1, SGList: []provider.SGE{sge, sge}}})
		q.rq.lock.Unlock()
		counter = uint16(q.rq.tail)
	default:
		s := q.srq
		if h.next()%2 == 0 {
			s = h.srqs[0]
			index = s.index
		}
		s.PostRecv([]provider.RecvWR{{ID: 1, SGList: []provider.SGE{sge}}})
		for k, used := range s.list.used {
			if used && (counter == 0 || h.next()%2 == 0) {
				counter = uint16(k)
			}
		}
	}
	for k := range 8 {
		*(*uint64)(unsafe.Add(e, k*8)) = uint64(h.next()) * 0x0101010101010101
	}
	store32(e, cqeUIdx, index)
	store32(e, cqeOpQPN, uint32(opcode)<<24|q.num)
	store32(e, cqeByteCount, uint32(h.next()%70))
	if op == cqeRespErr && h.next()%2 == 0 {
		store16(e, cqeVendorErr, vendorPageFault<<8|syndromeAborted)
	}
	store32(e, cqeLast, uint32(counter)<<16|uint32(op)<<4|uint32(format)<<2|i>>c.log&1)
	if h.next()%8 == 0 {
		*(*uint8)(unsafe.Add(e, h.next()%cqeSize)) = h.next()
	}
}

func fuzzPoll(t testing.TB, data []byte) {
	h := &hostile{fuzzInput: fuzzInput{data[:min(len(data), 4096)]}}
	opt := &CQOptions{EntrySize: 64 << (h.next() % 2), Compression: CompressionFormat([]byte{0, 1, 2, 4}[h.next()%4])}
	h.cqRig = newRigOf(t, Driver{Strict: h.next()%2 == 0}, provider.CQConfig{Entries: 1 << (h.next() % 6), Unlocked: h.next()%2 == 0, Vendor: opt})
	x, err := h.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
	}
	h.srqs = []*SRQ{h.srq(provider.SRQConfig{MaxWR: 5, MaxSGE: 1, XRCD: x, CQ: h.cq}), h.srq(provider.SRQConfig{MaxWR: 3, MaxSGE: 2})}
	none := &QP{ctx: h.ctx, typ: provider.RC} // neither sends nor receives
	if none.index, err = h.ctx.resources.add(none, nil); err != nil {
		t.Fatalf("resources.add: %v", err)
	}
	h.qps = []*QP{h.qp(provider.RC, nil), h.qp(provider.UD, nil), h.qp(provider.RC, h.srqs[1]), none}
	h.lkey, _ = h.region(64, 0)
	guard := h.guard()
	for len(h.data) > 0 {
		if h.run() {
			continue
		}
		// Create the next CQ. The CQ of an XRC SRQ is in use, so it stays.
		cfg := provider.CQConfig{Entries: 1 << (h.next() % 6), Unlocked: h.next()%2 == 0, Vendor: opt}
		h.cq, h.dev = h.newCQ(cfg)
	}
	guard()
}

// guard returns a check that no bytes were written behind the queues, in their last pages.
func (h *hostile) guard() func() {
	var tails [][]byte
	for _, q := range h.qps[:3] {
		b := unsafe.Slice((*byte)(q.rq.slots), 64<<6+64*wqebb)
		tails = append(tails, pageTail(b))
	}
	for _, s := range h.srqs {
		tails = append(tails, pageTail(s.region.Bytes()))
	}
	for _, b := range tails {
		for i := range b {
			b[i] = 0x5a
		}
	}
	return func() {
		for i, b := range append(tails, nil) {
			if len(bytes.Trim(b, "\x5a")) > 0 {
				h.t.Fatalf("bytes behind queue %d were written", i)
			}
		}
	}
}

// pageTail returns the bytes behind b in its last page.
func pageTail(b []byte) []byte {
	page := os.Getpagesize()
	n := (page - len(b)%page) % page
	return unsafe.Slice(unsafe.SliceData(b), len(b)+n)[len(b):]
}

// FuzzPoll searches for a ring that makes a poll panic, hang, or access foreign memory.
func FuzzPoll(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzPoll(t, data) })
}

func randomBytes(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 1+rnd.IntN(4000))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// TestHostileRings runs the test of FuzzPoll with random bytes.
func TestHostileRings(t *testing.T) {
	for seed := range uint64(shorter(800, 60)) {
		t.Run("", func(t *testing.T) { fuzzPoll(t, randomBytes(seed)) })
	}
}

// TestRandomEntries polls rings that contain only random bytes.
func TestRandomEntries(t *testing.T) {
	for seed := range uint64(shorter(300, 40)) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		h := newCQRig(t, provider.CQConfig{Entries: 31, Vendor: &CQOptions{EntrySize: 64 << (seed % 2), Compression: CompressHash}})
		q := h.qp(provider.RC, nil)
		for range 40 {
			q.sendPosted(1, 0)
			q.recvPosted(t, 1)
		}
		for i := range h.dev.Buf {
			h.dev.Buf[i] = byte(rnd.Uint32())
		}
		for i := range h.cq.mask + 1 {
			if rnd.IntN(8) != 0 {
				store32(h.cq.entry(i), cqeUIdx, q.index)
			}
		}
		h.cq.Poll(make([]provider.WC, 40))
		h.f.Close()
		h.cq.Close()
	}
}
