// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"syscall"

	"purerdma/provider"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// slots returns n slots of a ring from slot at on, as one slice.
func slots(ring []byte, at uint32, n int) []byte {
	var b []byte
	for i := range n {
		o := (int(at) + i) * 32 % len(ring)
		b = append(b, ring[o:o+32]...)
	}
	return b
}

// poison fills the pages of registers and n slots of a ring from slot at on.
func (r *replayer) poison(ring []byte, at uint32, n int) {
	for i := range n {
		o := (int(at) + i) * 32 % len(ring)
		copy(ring[o:o+32], bytes.Repeat([]byte{vector.Poison}, 32))
	}
	r.poisonPages()
}

func (r *replayer) poisonPages() {
	for _, p := range r.k.Pages() {
		copy(p, bytes.Repeat([]byte{vector.UARPoison}, len(p)))
	}
}

// stores returns the stores to the pages of registers.
func (r *replayer) stores() []*vector.Store {
	var all []*vector.Store
	for off, p := range r.k.Pages() {
		lo, hi := len(p), 0
		for i := 0; i < len(p); i += 8 {
			if binary.NativeEndian.Uint64(p[i:]) != vector.UARPoison*0x0101010101010101 {
				lo, hi = min(lo, i), i+8
			}
		}
		if hi > 0 {
			all = append(all, &vector.Store{Mmap: off, At: uint32(lo), Bytes: append(vector.Hex(nil), p[lo:hi]...)})
		}
	}
	return all
}

// sameStores compares the stores to the registers.
func (r *replayer) sameStores(want []*vector.Store) {
	got := r.stores()
	if len(want) != len(got) {
		r.differ("%d pages of registers written, want %d", len(got), len(want))
		return
	}
	for i, w := range want {
		if g := got[i]; w.Mmap != g.Mmap || w.At != g.At || !bytes.Equal(w.Bytes, g.Bytes) {
			r.differ("register %#x of page %#x = %x, want %#x of %#x = %x", g.At, g.Mmap, g.Bytes, w.At, w.Mmap, w.Bytes)
		}
	}
}

// sameTrace compares the last of the oracle's single stores with the register, and checks their order.
// For each doorbell the record comes first, and then the register has the same 8 bytes.
func (r *replayer) sameTrace(record int) {
	var last []*vector.Store
	for i, s := range r.rec.Stores {
		switch {
		case i%2 == 0 && s.DB != nil && *s.DB == record && len(s.Bytes) == 8:
		case i%2 == 1 && s.DB == nil && bytes.Equal(s.Bytes, r.rec.Stores[i-1].Bytes):
			last = []*vector.Store{s}
		default:
			r.differ("store %d of liberdma is %+v", i, s)
			return
		}
	}
	r.sameStores(last)
}

// compareStores compares the registers after a post to the queue with the doorbell record at an offset.
func (r *replayer) compareStores(record int) {
	if r.rec.Stores != nil {
		r.sameTrace(record)
	} else {
		r.sameStores(r.rec.UAR)
	}
}

func (r *replayer) sameRecord(got []byte) {
	if !bytes.Equal(got, r.rec.DBRecord) {
		r.differ("doorbell record %x, want %x", got, []byte(r.rec.DBRecord))
	}
}

// give posts a list with PostSend or as a batch.
func (r *replayer) give(q provider.QP, wrs []provider.SendWR) (n int, err error) {
	before := q.(provider.QPCounter).Stats()
	defer func() { r.compareCounts(q, before, wrs[:n]) }()
	if !r.batch {
		return q.PostSend(wrs)
	}
	// A discarded batch does not count.
	q.BatchBegin()
	for i := range wrs {
		if q.BatchAdd(&wrs[i]) != nil {
			break
		}
	}
	q.BatchDiscard()
	r.compareCounts(q, before, nil)
	q.BatchBegin()
	for i := range wrs {
		if err = q.BatchAdd(&wrs[i]); err != nil {
			break
		}
		n++
	}
	if e := q.BatchPost(); e != nil {
		return 0, e
	}
	return n, err
}

// compareCounts checks that the QP has counted the posted requests since before.
func (r *replayer) compareCounts(q provider.QP, before provider.QPStats, posted []provider.SendWR) {
	want := before
	for i := range posted {
		wr := &posted[i]
		n := uint64(len(wr.InlineData))
		for _, e := range wr.SGList {
			if wr.Opcode == provider.OpCompareSwap || wr.Opcode == provider.OpFetchAdd {
				n += 8
			} else {
				n += uint64(e.Length)
			}
		}
		want.Sends[wr.Opcode].Add(n)
	}
	if len(posted) > 0 {
		want.Doorbells++
	}
	if got := q.(provider.QPCounter).Stats(); got != want {
		r.differ("counts %+v, want %+v", got, want)
	}
}

func sends(rec *vector.Record) []provider.SendWR {
	var wrs []provider.SendWR
	for _, w := range rec.WRs {
		wrs = append(wrs, replay.SendWR(w))
	}
	return wrs
}

// sameResult compares the result of a post.
func (r *replayer) sameResult(n int, err error) {
	want := len(r.rec.WRs)
	if r.rec.RC != 0 {
		want = r.rec.Bad
	}
	if n != want || (err == nil) != (r.rec.RC == 0) || r.rec.RC == int(syscall.ENOMEM) && !errors.Is(err, provider.ErrFull) {
		r.differ("%d posted, %v; want %d, errno %d", n, err, want, r.rec.RC)
	}
}

func (r *replayer) send() {
	rec := r.rec
	q := r.qps[rec.QP]
	r.poison(q.sq, rec.At, rec.Free)
	r.sameResult(r.give(q.p, sends(rec)))
	var blocks int
	r.must(json.Unmarshal(rec.Slots, &blocks))
	r.sameRecord(q.sendRecord)
	if got := slots(q.sq, rec.At, blocks); !bytes.Equal(got, rec.WQE) {
		r.differ("requests %s", replay.Diff(rec.WQE, got))
	}
	// The blocks after the request must be unchanged. A batch that is discarded writes more of them.
	rest := slots(q.sq, rec.At+uint32(blocks), rec.Free-blocks)
	if rec.RC == 0 && len(bytes.Trim(rest, string([]byte{vector.Poison}))) > 0 {
		r.differ("bytes after the %d blocks of the list changed", blocks)
	}
	r.compareStores(0)
}

func (r *replayer) recv() {
	rec := r.rec
	q := r.qps[rec.On]
	r.poison(q.rq, rec.At, rec.Free)
	var wrs []provider.RecvWR
	for _, w := range rec.WRs {
		wrs = append(wrs, replay.RecvWR(w))
	}
	r.sameResult(q.p.PostRecv(wrs))
	r.sameRecord(q.recvRecord)
	var want []vector.Hex
	r.must(json.Unmarshal(rec.Slots, &want))
	for i, w := range want {
		if got := slots(q.rq, rec.At+uint32(i), 1); !bytes.Equal(got, w) {
			r.differ("slot %d %s", int(rec.At)+i, replay.Diff(w, got))
		}
	}
	r.compareStores(8)
}

// add adds a completion as the device does.
func (c *cq) add(e []byte) {
	n := uint32(len(c.ring) / 32)
	e[0] &^= 0x80
	if c.pi&n == 0 {
		e[0] |= 0x80
	}
	copy(c.ring[c.pi%n*32:], e)
	c.pi++
}

func (r *replayer) poll() {
	rec := r.rec
	c := r.cqs[rec.CQ]
	for _, v := range rec.CQEs {
		if slot := c.pi % uint32(len(c.ring)/32); slot != v.Slot {
			r.differ("entry %d, want %d", slot, v.Slot)
		}
		e := bytes.Clone(v.Bytes)
		if c.add(e); !bytes.Equal(e, v.Bytes) {
			r.differ("owner bit of entry %d", v.Slot)
		}
	}
	wcs := make([]provider.WC, rec.Max)
	n, err := c.p.Poll(wcs)
	if n != rec.N || err != nil {
		r.differ("%d completions, %v; want %d", n, err, rec.N)
	}
	for i, w := range rec.WCs[:min(n, len(rec.WCs))] {
		want := *w
		// liberdma does not report invalidated keys, as the kernel's driver does.
		if wcs[i].Flags == provider.WCWithInv {
			want.Flags = nil
			if len(rec.CQEs) == len(rec.WCs) {
				key := uint64(binary.BigEndian.Uint32(rec.CQEs[i].Bytes[12:]))
				want.Inv = &key
			}
		}
		if d := replay.DiffWC(&want, &wcs[i]); d != "" {
			r.differ("completion %d:%s", i, d)
		}
	}
}

// many posts requests and completes them without comparing each of them.
func (r *replayer) many() {
	rec := r.rec
	q := r.qps[rec.QP]
	var list int
	r.must(json.Unmarshal(rec.List, &list))
	wrs := slices.Repeat(sends(rec), list)
	wcs := make([]provider.WC, 64)
	e := bytes.Clone(rec.CQEs[0].Bytes)
	at := binary.LittleEndian.Uint16(q.sendRecord)
	var blocks uint16
	for left := rec.Count; left > 0; {
		n := int(min(left, uint64(list)))
		if got, err := q.p.PostSend(wrs[:n]); got != n || err != nil {
			r.differ("%d left: %d posted, %v", left, got, err)
			return
		}
		blocks = (binary.LittleEndian.Uint16(q.sendRecord) - at) / uint16(n)
		for range n {
			binary.BigEndian.PutUint32(e[4:], uint32(at))
			at += blocks
			q.cq.add(e)
		}
		if got, err := q.cq.p.Poll(wcs); got != n || err != nil || wcs[0].Status != provider.WCSuccess {
			r.differ("%d left: %d completions of %d, %v: %+v", left, got, n, err, wcs[0])
			return
		}
		left -= uint64(n)
	}
	r.sameRecord(q.sendRecord)
}
