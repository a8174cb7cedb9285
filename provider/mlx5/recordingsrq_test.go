// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/json"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// replayedSRQ is an SRQ of a replay.
type replayedSRQ struct {
	*SRQ
	recvs    bool           // a receive was replayed, so the queue has its position
	reposted *vector.Record // will be posted again by the poll of a page fault
}

// createSRQ creates an SRQ with the recorded number and size.
func (r *recordingReplay) createSRQ(rec *vector.Record) {
	cfg := &provider.SRQConfig{PD: r.pd, MaxWR: rec.GotWR, MaxSGE: rec.GotSGE}
	if rec.XRCD != "" {
		x, err := r.ctx.OpenXRCD(-1, 0)
		r.must(rec, err)
		r.t.Cleanup(func() { x.Close() })
		cfg.XRCD, cfg.CQ = x, r.cq
		if c := r.cqs[rec.CQ]; c != nil {
			cfg.CQ = c
		}
	}
	s, err := r.ctx.CreateSRQ(cfg)
	r.must(rec, err)
	r.t.Cleanup(func() { s.Close() })
	r.srqs[rec.ID] = &replayedSRQ{SRQ: s.(*SRQ)}
}

// list returns the slots of a record of receives of an SRQ.
func (r *recordingReplay) list(rec *vector.Record) []vector.Slot {
	var list []vector.Slot
	r.must(rec, json.Unmarshal(rec.List, &list))
	return list
}

// seat makes the free list continue with the slots of a record. Their order depends on completions that no poll has returned, which
// a recording does not have.
func (s *replayedSRQ) seat(r *recordingReplay, rec *vector.Record) {
	l, list := &s.SRQ.list, r.list(rec)
	seated := make([]bool, len(l.next))
	for _, e := range list {
		if int(e.Slot) >= len(seated) || seated[e.Slot] {
			r.t.Fatalf("line %d: slot %d is not in the SRQ, or posted twice", rec.Line, e.Slot)
		}
		seated[e.Slot] = true
	}
	tail := 0
	for seated[tail] {
		if tail++; tail == len(seated) {
			r.t.Fatalf("line %d: %d receives in an SRQ of %d slots", rec.Line, len(list), tail)
		}
	}
	l.head, l.tail = uint16(tail), uint16(tail)
	for i := len(list) - 1; i >= 0; i-- {
		slot := uint16(list[i].Slot)
		l.set(slot, l.head)
		l.used[slot] = false
		l.release(int(slot), false)
		l.head = slot
	}
	l.release(tail, false)
	if r.lost && !s.recvs {
		s.SRQ.posted = rec.DB - uint32(len(list))
	}
	s.recvs = true
	for _, e := range list {
		fillWith(s.after(e), vector.Poison)
	}
}

// after returns the bytes of a slot behind its link.
func (s *replayedSRQ) after(e vector.Slot) []byte {
	return unsafe.Slice((*byte)(s.slot(uint16(e.Slot))), 1<<s.shift)[srqSegment:]
}

func (r *recordingReplay) srqRecv(rec *vector.Record, s *replayedSRQ) {
	s.seat(r, rec)
	wrs := r.receives(rec)
	if n, err := s.PostRecv(wrs); n != len(wrs) || err != nil {
		r.errorf(rec, "PostRecv of %d = %d, %v", len(wrs), n, err)
		return
	}
	r.compareSlots(rec, s)
}

// compareSlots compares the slots of a record and the doorbell record.
func (r *recordingReplay) compareSlots(rec *vector.Record, s *replayedSRQ) {
	if db := endian.Big32(s.bell.rec[recvRecord]); db != rec.DB {
		r.errorf(rec, "doorbell record = %#x, want %#x", db, rec.DB)
	}
	for _, e := range r.list(rec) {
		if got := s.after(e)[:len(e.Bytes)]; !bytes.Equal(got, e.Bytes) {
			r.errorf(rec, "slot %d %s", e.Slot, replay.Diff(e.Bytes, got))
		}
	}
}

// srqOf returns the SRQ of a completed receive, or nil.
func (r *recordingReplay) srqOf(of string, cqe []byte) *replayedSRQ {
	if s := r.srqs[of]; s != nil {
		return s
	}
	if q := r.qps[of]; q != nil && isReceive(unsafe.Pointer(&cqe[0])) {
		return r.srqs[q.srq]
	}
	return nil
}
