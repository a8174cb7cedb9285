// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre_test

import (
	"bytes"
	"encoding/binary"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// searchEntries returns the entries of the search table for n requests of the record. at is the slot of the first.
func (r *replayer) searchEntries(q *qp, n int) [][]byte {
	var list [][]byte
	at := int(r.Rec.At)
	for i, w := range r.Rec.WRs[:n] {
		place := (q.index + i) % q.entries
		if q.variable {
			place = at
		}
		if q.msn {
			place = 0
			if q.rc {
				place = (q.messages + i) % (len(q.search) / q.entry)
			}
		}
		list = append(list, q.search[place*q.entry:][:q.entry])
		at = (at + r.slots(q, w)) % (len(q.sq.Mem) / slot)
	}
	return list
}

// slots returns the number of slots of a request.
func (r *replayer) slots(q *qp, w *vector.WR) int {
	switch {
	case !q.variable:
		return 8
	case !replay.Inlined(w):
		return 2 + len(w.SGE)
	}
	n := uint64(0)
	for _, e := range w.SGE {
		n += e[1]
	}
	return 2 + int(n+slot-1)/slot
}

func (r *replayer) send() {
	q := r.qps[r.Rec.QP]
	r.Poison(q.sq)
	for _, e := range r.searchEntries(q, len(r.Rec.WRs)) {
		replay.Fill(e, vector.Poison)
	}
	n, err := r.PostSend(q.p, r.SendWRs())
	r.Posted(n, err)
	r.compareRequests(q, r.Rec.WQE, r.SentSlots(q.sq))
	r.compareSearch(q, r.Rec.DBRecord, bytes.Join(r.searchEntries(q, min(n, len(r.Rec.WRs))), nil))
	r.compareBells()
	q.index = (q.index + n) % q.entries
	if q.msn && q.rc {
		q.messages = (q.messages + n) % (len(q.search) / q.entry)
	}
}

func (r *replayer) recv(on interface {
	PostRecv([]provider.RecvWR) (int, error)
}, ring replay.Ring) {
	r.Poison(ring)
	r.Posted(on.PostRecv(r.RecvWRs()))
	r.compareReceives(ring)
	r.compareBells()
}

// add adds a completion as the device does, with the handle of the QP that it names.
func (r *replayer) add(c *cq, v *vector.CQE) {
	e := bytes.Clone(v.Bytes)
	n := len(c.ring) / completion
	e[24] &^= 1
	if c.pi/n%2 == 0 {
		e[24] |= 1
	}
	if v.Of != "" {
		at := 0
		if kind := e[24] >> 1 & 15; kind == 1 || kind == 2 {
			at = 8
		}
		binary.LittleEndian.PutUint64(e[at:], r.qps[v.Of].cookie)
	}
	copy(c.ring[c.pi%n*completion:], e)
	c.pi++
}

// addAll adds the completions of the record.
func (r *replayer) addAll(c *cq) {
	for _, v := range r.Rec.CQEs {
		if at := c.pi % (len(c.ring) / completion); at != int(v.Slot) && !r.old {
			r.Differ("entry %d, want %d", at, v.Slot)
		}
		r.add(c, v)
	}
}

func (r *replayer) poll() {
	rec := r.Rec
	c := r.cqs[rec.CQ]
	r.addAll(c)
	wcs := make([]provider.WC, rec.Max)
	r.PoisonPages()
	n, err := c.p.Poll(wcs)
	if n != rec.N || err != nil {
		r.Differ("%d completions, %v; want %d", n, err, rec.N)
	}
	for i, w := range rec.WCs[:min(n, len(rec.WCs))] {
		want := *w
		// After a change of the size the library returns zeros in members that it does not set.
		if wcs[i].Opcode == provider.WCSend {
			want.ByteLen = nil
		}
		// The library reports the version of IP as the service level of a datagram.
		want.SL = nil
		// It does not report invalidated keys, as the kernel's driver does.
		if wcs[i].Flags == provider.WCWithInv {
			want.Flags = nil
			if len(rec.CQEs) == len(rec.WCs) {
				key := uint64(binary.LittleEndian.Uint32(rec.CQEs[i].Bytes[4:]))
				want.Inv = &key
			}
		}
		if d := replay.DiffWC(&want, &wcs[i]); d != "" {
			r.Differ("completion %d:%s", i, d)
		}
	}
	r.compareBells()
}

// resize changes the size of a CQ. The command adds the entries of the record to the old ring.
func (r *replayer) resize() {
	rec := r.Rec
	c := r.cqs[rec.CQ]
	r.resizing = c
	r.PoisonPages()
	r.Refused(c.p.Resize(rec.CQE))
	r.resizing = nil
	r.compareBells()
	if n := abi.View[abi.UverbsResizeCQ](r.Kernel.Last(replay.ResizeCQ).Attrs[abi.UVERBS_ATTR_CORE_IN]).CQE; int(n) != rec.Got {
		r.Differ("change to %d entries, want %d", n, rec.Got)
	}
	in := replay.DriverInput[abi.BnxtReResizeCQReq](r.Session, replay.ResizeCQ)
	c.ring, c.pi = in.CQVA.Slice(r.cqDepth(uint32(rec.Got))*completion), 0
	if c.p.Entries() < rec.CQE {
		r.Differ("%d entries, want at least %d", c.p.Entries(), rec.CQE)
	}
}

// cutOff ends the old ring of a CQ whose size changes.
func (r *replayer) cutOff() { r.addAll(r.resizing) }

func (r *replayer) many() {
	q := r.qps[r.Rec.QP]
	r.Many(q.p, q.cq.p, func(n int) {
		for range n {
			q.index = (q.index + 1) % q.entries
			var e [completion]byte
			binary.LittleEndian.PutUint16(e[8:], uint16(q.index))
			r.add(q.cq, &vector.CQE{Of: r.Rec.QP, Bytes: e[:]})
		}
		if q.msn && q.rc {
			q.messages = (q.messages + n) % (len(q.search) / q.entry)
		}
	})
}
