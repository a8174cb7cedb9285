// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"bytes"
	"encoding/binary"

	"purerdma/provider"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// slot is the size of a block of a send queue, of a receive, and of a completion.
const slot = 32

func (r *replayer) send() {
	q := r.qps[r.Rec.QP]
	r.Poison(q.sq)
	r.Posted(r.PostSend(q.p, r.SendWRs()))
	r.Same("doorbell record", r.Rec.DBRecord, q.sendRecord)
	r.Same("requests", r.Rec.WQE, r.SentSlots(q.sq))
	r.compareStores(0)
}

func (r *replayer) recv() {
	q := r.qps[r.Rec.On]
	r.Poison(q.rq)
	r.Posted(q.p.PostRecv(r.RecvWRs()))
	r.Same("doorbell record", r.Rec.DBRecord, q.recvRecord)
	r.CompareReceives(q.rq)
	r.compareStores(8)
}

// compareStores compares the registers after a post to the queue with the doorbell record at an offset.
// If the oracle has traced its stores, it compares the last of them with the register, and checks their
// order. For each doorbell the record comes first, and then the register has the same 8 bytes.
func (r *replayer) compareStores(record int) {
	if r.Rec.Stores == nil {
		r.CompareStores(r.Rec.UAR)
		return
	}
	var last []*vector.Store
	for i, s := range r.Rec.Stores {
		switch {
		case i%2 == 0 && s.DB != nil && *s.DB == record && len(s.Bytes) == 8:
		case i%2 == 1 && s.DB == nil && bytes.Equal(s.Bytes, r.Rec.Stores[i-1].Bytes):
			last = []*vector.Store{s}
		default:
			r.Differ("store %d of liberdma is %+v", i, s)
			return
		}
	}
	r.CompareStores(last)
}

// add adds a completion as the device does.
func (c *cq) add(e []byte) {
	n := uint32(len(c.ring) / slot)
	e[0] &^= 0x80
	if c.pi&n == 0 {
		e[0] |= 0x80
	}
	copy(c.ring[c.pi%n*slot:], e)
	c.pi++
}

func (r *replayer) poll() {
	rec := r.Rec
	c := r.cqs[rec.CQ]
	for _, v := range rec.CQEs {
		if at := c.pi % uint32(len(c.ring)/slot); at != v.Slot {
			r.Differ("entry %d, want %d", at, v.Slot)
		}
		e := bytes.Clone(v.Bytes)
		if c.add(e); !bytes.Equal(e, v.Bytes) {
			r.Differ("owner bit of entry %d", v.Slot)
		}
	}
	wcs := make([]provider.WC, rec.Max)
	n, err := c.p.Poll(wcs)
	if n != rec.N || err != nil {
		r.Differ("%d completions, %v; want %d", n, err, rec.N)
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
			r.Differ("completion %d:%s", i, d)
		}
	}
}

func (r *replayer) many() {
	q := r.qps[r.Rec.QP]
	e := bytes.Clone(r.Rec.CQEs[0].Bytes)
	at := binary.LittleEndian.Uint16(q.sendRecord)
	r.Many(q.p, q.cq.p, func(n int) {
		blocks := (binary.LittleEndian.Uint16(q.sendRecord) - at) / uint16(n)
		for range n {
			binary.BigEndian.PutUint32(e[4:], uint32(at))
			at += blocks
			q.cq.add(e)
		}
	})
	r.Same("doorbell record", r.Rec.DBRecord, q.sendRecord)
}
