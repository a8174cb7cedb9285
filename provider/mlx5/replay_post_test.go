// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// slots returns n slots of a ring from slot at on, as one slice.
func slots(ring []byte, size int, at uint32, n int) []byte {
	var b []byte
	for i := range n {
		o := (int(at) + i) * size % len(ring)
		b = append(b, ring[o:o+size]...)
	}
	return b
}

// poison fills the pages of registers and the slots that the next request writes.
func (r *replayer) poison(ring []byte, size int, at uint32, n int) {
	for i := range n {
		o := (int(at) + i) * size % len(ring)
		fill(ring[o:o+size], vector.Poison)
	}
	r.poisonPages()
}

func (r *replayer) poisonPages() {
	for _, p := range r.k.Pages() {
		fill(p, vector.UARPoison)
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

// sameStores returns a description of the differences between stores to registers.
func sameStores(want, got []*vector.Store) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d pages of registers written, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.Mmap != g.Mmap || w.At != g.At {
			return fmt.Sprintf("register %#x of page %#x, want %#x of %#x", g.At, g.Mmap, w.At, w.Mmap)
		}
		if !bytes.Equal(w.Bytes, g.Bytes) {
			return "register " + replay.Diff(w.Bytes, g.Bytes)
		}
	}
	return ""
}

// request converts a request with all objects that it refers to.
func (r *replayer) request(w *vector.WR, ah string) provider.SendWR {
	p := replay.SendWR(w)
	if p.Bind != nil {
		p.Bind.Type = r.mws[p.Bind.MW]
	}
	if ah == "" {
		ah = w.AH
	}
	if ah != "" {
		p.AH = r.ahs[ah]
	}
	if r.env["FAKEUV_INLINE"] == "l2" {
		return header(p, 18)
	}
	return p
}

// post posts the recorded list to the QP.
func (r *replayer) post(rec *vector.Record, q *qp) (int, error) {
	var wrs []provider.SendWR
	ah := ""
	if rec.DC != nil {
		ah = rec.DC.AH
	}
	for _, w := range rec.WRs {
		wrs = append(wrs, r.request(w, ah))
	}
	if rec.DC != nil {
		var dc []mlx5.DCWR
		for _, w := range wrs {
			w.RemoteQPN = rec.DC.DCTN
			dc = append(dc, mlx5.DCWR{SendWR: w, Key: rec.DC.Key})
		}
		return q.p.(*mlx5.QP).PostDC(dc)
	}
	return r.give(q.p, wrs)
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
		n := uint64(len(wr.Header) + len(wr.InlineData))
		for _, e := range wr.SGList {
			switch {
			case wr.InlineData != nil || wr.Opcode == provider.OpLocalInv || wr.Opcode == provider.OpBindMW:
			case wr.Opcode != provider.OpCompareSwap && wr.Opcode != provider.OpFetchAdd:
				n += uint64(e.Length)
			case e.Length != 0:
				n += 8
			}
		}
		want.Sends[wr.Opcode].Add(n)
	}
	if len(posted) > 0 {
		want.Doorbells++
	}
	if got := q.(provider.QPCounter).Stats(); got != want {
		r.differ(r.current, "counts %+v, want %+v", got, want)
	}
}

func (r *replayer) send(rec *vector.Record) {
	q := r.qps[rec.QP]
	r.poison(q.sq, 64, rec.At, rec.Free)
	n, err := r.post(rec, q)
	want := len(rec.WRs)
	if rec.RC != 0 {
		want = rec.Bad
	}
	if n != want || (err == nil) != (rec.RC == 0) {
		r.differ(rec, "%d posted, %v; want %d, errno %d", n, err, want, rec.RC)
	}
	if full := rec.Name == "fill" || rec.Name == "full"; rec.RC != 0 && full && !errors.Is(err, provider.ErrFull) {
		r.differ(rec, "%v, errno %d", err, rec.RC)
	}
	r.compareSend(rec, q)
}

// bind replays ibv_bind_mw, which posts a request with the window's next key.
func (r *replayer) bind(rec *vector.Record) {
	q := r.qps[rec.QP]
	r.poison(q.sq, 64, rec.At, rec.Free)
	old := rec.RKey - 1
	wr := provider.SendWR{ID: rec.WRID, Opcode: provider.OpBindMW, Flags: provider.SendFlags(rec.Flags), Bind: &provider.MWBindInfo{
		Type: provider.MWType1, MW: old, RKey: rec.RKey, LKey: rec.LKey, Addr: rec.Addr, Length: rec.Len, Access: provider.Access(rec.Access)}}
	if n, err := q.p.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
		r.differ(rec, "%d posted, %v", n, err)
	}
	r.compareSend(rec, q)
}

// compareSend compares WQEs, doorbell record and registers.
func (r *replayer) compareSend(rec *vector.Record, q *qp) {
	var blocks int
	r.must(json.Unmarshal(rec.Slots, &blocks))
	if db := binary.BigEndian.Uint32(q.db[4:]); db != rec.DB {
		r.differ(rec, "doorbell record %#x, want %#x", db, rec.DB)
	}
	got := slots(q.sq, 64, rec.At, blocks)
	want := r.ours(rec, len(q.sq), rec.WQE, got)
	if !bytes.Equal(got, want) {
		r.differ(rec, "WQE %s", replay.Diff(want, got))
	}
	// The blocks after the request must be unchanged.
	rest := slots(q.sq, 64, rec.At+uint32(blocks), rec.Free-blocks)
	if rec.RC == 0 && len(bytes.Trim(rest, string([]byte{vector.Poison}))) > 0 {
		r.differ(rec, "bytes after the %d blocks of the list changed", blocks)
	}
	r.compareStores(rec, got, len(q.sq))
}

func (r *replayer) compareStores(rec *vector.Record, wqe []byte, ring int) {
	stores := r.stores()
	if rec.Stores != nil {
		r.compareTrace(rec, stores)
		return
	}
	want := rec.UAR
	if rec.RC != 0 && rec.Bad > 0 && len(want) == 1 {
		want = []*vector.Store{ringOfGood(want[0], wqe, rec.Bad, r.env["FAKEUV_BF"] != "0")}
	}
	for _, s := range want {
		if len(s.Bytes) >= 16 && len(stores) == 1 {
			s = &vector.Store{Mmap: s.Mmap, At: s.At, Bytes: r.ours(rec, ring, s.Bytes, stores[0].Bytes)}
			want = []*vector.Store{s}
		}
	}
	if d := sameStores(want, stores); d != "" {
		r.differ(rec, "%s", d)
	}
}

// compareTrace compares the sum of the oracle's single stores, and checks their order. The
// doorbell record comes first, followed by stores of 8 bytes at ascending addresses.
func (r *replayer) compareTrace(rec *vector.Record, got []*vector.Store) {
	var sum []*vector.Store
	for i, s := range rec.Stores {
		switch {
		case i == 0 && s.DB != nil && *s.DB == 4 && len(s.Bytes) == 4:
		case i == 1 && s.DB == nil && len(s.Bytes) == 8:
			sum = []*vector.Store{{Mmap: s.Mmap, At: s.At, Bytes: append(vector.Hex(nil), s.Bytes...)}}
		case i > 1 && s.DB == nil && len(s.Bytes) == 8 && s.Mmap == sum[0].Mmap && s.At == sum[0].At+uint32(len(sum[0].Bytes)):
			sum[0].Bytes = append(sum[0].Bytes, s.Bytes...)
		default:
			r.differ(rec, "store %d of libmlx5 is %+v", i, s)
			return
		}
	}
	if d := sameStores(sum, got); d != "" {
		r.differ(rec, "%s", d)
	}
}

func (r *replayer) recv(rec *vector.Record, q *qp) {
	r.poison(q.rq, q.rqSlot, rec.At, rec.Free)
	var want []vector.Hex
	r.must(json.Unmarshal(rec.Slots, &want))
	n, err := q.p.PostRecv(recvs(rec))
	if n != len(want) || (err == nil) != (rec.RC == 0) {
		r.differ(rec, "%d posted, %v; want %d, errno %d", n, err, len(want), rec.RC)
	}
	if db := binary.BigEndian.Uint32(q.db); db != rec.DB {
		r.differ(rec, "doorbell record %#x, want %#x", db, rec.DB)
	}
	for i, w := range want {
		if got := slots(q.rq, q.rqSlot, rec.At+uint32(i), 1); !bytes.Equal(got, w) {
			r.differ(rec, "slot %d %s", int(rec.At)+i, replay.Diff(w, got))
		}
	}
}

func recvs(rec *vector.Record) []provider.RecvWR {
	var wrs []provider.RecvWR
	for _, w := range rec.WRs {
		wrs = append(wrs, replay.RecvWR(w))
	}
	return wrs
}

func (r *replayer) srqRecv(rec *vector.Record, s *srq) {
	for i := range len(s.ring) / s.stride {
		if !s.posted[uint16(i)] {
			fill(s.ring[i*s.stride+16:(i+1)*s.stride], vector.Poison)
		}
	}
	var want []vector.Slot
	r.must(json.Unmarshal(rec.List, &want))
	n, err := s.p.PostRecv(recvs(rec))
	if n != len(want) || (err == nil) != (rec.RC == 0) {
		r.differ(rec, "%d posted, %v; want %d, errno %d", n, err, len(want), rec.RC)
	}
	if db := binary.BigEndian.Uint32(s.db); db != rec.DB {
		r.differ(rec, "doorbell record %#x, want %#x", db, rec.DB)
	}
	r.compareSlots(rec, s, want[:min(n, len(want))])
}

// compareSlots compares the slots that were posted last.
func (r *replayer) compareSlots(rec *vector.Record, s *srq, want []vector.Slot) {
	for _, w := range want {
		at := int(s.next) * s.stride
		if r.newer() && uint32(s.next) != w.Slot {
			r.differ(rec, "slot %d, want %d", s.next, w.Slot)
		}
		if got := s.ring[at+16 : at+s.stride]; !bytes.Equal(got, w.Bytes) {
			r.differ(rec, "slot %d %s", s.next, replay.Diff(w.Bytes, got))
		}
		s.ours[uint16(w.Slot)], s.posted[s.next] = s.next, true
		s.next = binary.BigEndian.Uint16(s.ring[at+2:])
	}
}

// reposted compares the receives that a poll has posted again by itself.
func (r *replayer) reposted(rec *vector.Record) {
	s := r.srqs[rec.On]
	if db := binary.BigEndian.Uint32(s.db); db != rec.DB {
		r.differ(rec, "doorbell record %#x, want %#x", db, rec.DB)
	}
	var want []vector.Slot
	r.must(json.Unmarshal(rec.List, &want))
	r.compareSlots(rec, s, want)
}
