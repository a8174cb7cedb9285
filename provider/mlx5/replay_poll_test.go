// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// Fields of the last 64 bytes of a CQE.
const (
	cqeL3Type  = 29
	cqeVLAN    = 30
	cqeUIdx    = 33 // 3 bytes
	cqeOpQPN   = 56
	cqeCounter = 60
	cqeOwner   = 63
	cqeBytes   = 64
)

// add adds a completion as the device does.
func (c *cq) add(e []byte) {
	n := uint32(len(c.ring) / c.size)
	e[c.size-1] = e[c.size-1]&^1 | byte(c.pi/n&1)
	copy(c.ring[int(c.pi%n)*c.size:], e)
	c.pi++
}

func putUIdx(e []byte, index uint32) { e[0], e[1], e[2] = byte(index>>16), byte(index>>8), byte(index) }

// device adds a completion of the oracle, with purerdma's numbers of queues and slots.
func (r *replayer) device(rec *vector.Record, c *cq, v *vector.CQE) {
	e := append([]byte(nil), v.Bytes...)
	if len(e) != c.size {
		r.Fatalf("line %d: entry of %d bytes in a CQ with entries of %d", rec.Line, len(e), c.size)
	}
	if slot := c.pi % uint32(len(c.ring)/c.size); slot != v.Slot {
		r.Differ("entry %d, want %d", slot, v.Slot)
	}
	last := e[c.size-cqeBytes:]
	s := r.srqs[v.Of]
	if s != nil {
		putUIdx(last[cqeUIdx:], s.uidx)
	} else if q := r.qps[v.Of]; q != nil {
		putUIdx(last[cqeUIdx:], q.uidx)
		s = r.srqOf[v.Of]
	}
	if op := last[cqeOwner] >> 4; s != nil && (op >= 1 && op <= 4 || op == 14) {
		slot := binary.BigEndian.Uint16(last[cqeCounter:])
		our, ok := s.ours[slot]
		if !ok {
			r.Differ("no receive in the oracle's slot %d", slot)
		}
		binary.BigEndian.PutUint16(last[cqeCounter:], our)
		delete(s.posted, our)
	}
	owner := e[c.size-1] & 1
	c.add(e)
	if e[c.size-1]&1 != owner {
		r.Differ("owner bit of entry %d", v.Slot)
	}
}

func (r *replayer) poll(rec *vector.Record) {
	c := r.cqs[rec.CQ]
	for _, v := range rec.CQEs {
		r.device(rec, c, v)
	}
	var at []byte
	if m := rec.Mem; m != nil {
		at = r.Data.Bytes()[m.Addr-vector.Data:][:len(m.Bytes)]
		clear(at)
	}
	got := make([]mlx5.Completion, rec.Max)
	n, err := c.take(got)
	if n != rec.N || err != nil {
		r.Differ("%d completions, %v; want %d", n, err, rec.N)
	}
	for i, w := range rec.WCs[:min(n, len(rec.WCs))] {
		if d := replay.DiffWC(meant(rec, i, c.ex), &got[i].WC); d != "" {
			r.Differ("completion %d:%s", i, d)
		}
		if c.ex {
			r.compareExtended(rec, w, &got[i])
		}
	}
	if ci := binary.BigEndian.Uint32(c.db); ci != rec.CI {
		r.Differ("consumer index %#x, want %#x", ci, rec.CI)
	}
	if rec.Mem != nil && !r.unread(rec) {
		r.Same("memory", rec.Mem.Bytes, at)
	}
}

// take polls with the interface that the CQ was created for.
func (c *cq) take(cs []mlx5.Completion) (int, error) {
	if c.ex {
		return c.p.PollExtended(cs)
	}
	wcs := make([]provider.WC, len(cs))
	n, err := c.p.Poll(wcs)
	for i := range n {
		cs[i].WC = wcs[i]
	}
	return n, err
}

func (r *replayer) compareExtended(rec *vector.Record, want *vector.WC, got *mlx5.Completion) {
	if got.Status != provider.WCSuccess {
		return
	}
	for _, f := range []struct {
		name string
		want *uint64
		got  uint64
	}{{"Timestamp", want.TS, got.Timestamp}, {"FlowTag", want.FlowTag, uint64(got.FlowTag)}, {"VLAN", want.CVLAN, uint64(got.VLAN)}} {
		if f.want != nil && *f.want != f.got {
			r.Differ("%s %#x, want %#x", f.name, f.got, *f.want)
		}
	}
}

// many posts requests and completes them without comparing each of them.
func (r *replayer) many(rec *vector.Record) {
	q := r.qps[rec.QP]
	e := make([]byte, q.cq.size)
	last := e[q.cq.size-cqeBytes:]
	binary.BigEndian.PutUint32(last[cqeOpQPN:], uint32(rec.MLXOpcode)<<24|q.p.Num())
	putUIdx(last[cqeUIdx:], q.uidx)
	at := uint16(binary.BigEndian.Uint32(q.db[4:]))
	r.Many(q.p, q.cq.p, func(n int) {
		for range n {
			binary.BigEndian.PutUint16(last[cqeCounter:], at)
			at++
			q.cq.add(e)
		}
	})
	if db, ci := binary.BigEndian.Uint32(q.db[4:]), binary.BigEndian.Uint32(q.cq.db); db != rec.DB || ci != rec.CI {
		r.Differ("doorbell record %#x, consumer index %#x; want %#x, %#x", db, ci, rec.DB, rec.CI)
	}
}

// manyReceives posts receives to an SRQ, and completes them in the order of its list.
func (r *replayer) manyReceives(rec *vector.Record, s *srq) {
	c := r.cqs[rec.CQ]
	var list int
	r.Must(json.Unmarshal(rec.List, &list))
	wrs := slices.Repeat(r.RecvWRs(), list)
	wcs := make([]provider.WC, 64)
	e := make([]byte, c.size)
	last := e[c.size-cqeBytes:]
	putUIdx(last[cqeUIdx:], r.qps[rec.QP].uidx)
	last[cqeOwner] = 2 << 4 // completion of a received SEND
	for left := rec.Count; left > 0; {
		n := int(min(left, uint64(list)))
		for i := range wrs {
			wrs[i].ID = uint64(i)
		}
		if got, err := s.p.PostRecv(wrs[:n]); got != n || err != nil {
			r.Differ("%d left: %d posted, %v", left, got, err)
			return
		}
		for range n {
			binary.BigEndian.PutUint16(last[cqeCounter:], s.next)
			s.next = binary.BigEndian.Uint16(s.ring[int(s.next)*s.stride+2:])
			c.add(e)
		}
		got, err := c.p.Poll(wcs)
		if got != n || err != nil {
			r.Differ("%d left: %d completions of %d, %v", left, got, n, err)
			return
		}
		for i := range n {
			if wcs[i].ID != uint64(i) || wcs[i].Status != provider.WCSuccess {
				r.Differ("%d left: completion %d is %+v", left, i, wcs[i])
				return
			}
		}
		left -= uint64(n)
	}
	if db, ci := binary.BigEndian.Uint32(s.db), binary.BigEndian.Uint32(c.db); db != rec.DB || ci != rec.CI {
		r.Differ("doorbell record %#x, consumer index %#x; want %#x, %#x", db, ci, rec.DB, rec.CI)
	}
}

func (r *replayer) arm(rec *vector.Record) {
	c := r.cqs[rec.CQ]
	r.PoisonPages()
	r.Must(c.p.Arm(rec.Solicited != 0))
	if ci, arm := binary.BigEndian.Uint32(c.db), binary.BigEndian.Uint32(c.db[4:]); ci != rec.CI || arm != rec.Arm {
		r.Differ("doorbell record %#x, %#x; want %#x, %#x", ci, arm, rec.CI, rec.Arm)
	}
	r.CompareStores(rec.UAR)
}
