// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// request converts a request with all objects that it refers to.
func (r *replayer) request(w *vector.WR, ah string) provider.SendWR {
	p := r.SendWR(w)
	if ah != "" {
		p.AH = r.AHs[ah]
	}
	if r.Env["FAKEUV_INLINE"] == "l2" {
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
	return r.PostSend(q.p, wrs)
}

func (r *replayer) send(rec *vector.Record) {
	q := r.qps[rec.QP]
	r.Poison(q.sq)
	r.Posted(r.post(rec, q))
	r.compareSend(rec, q)
}

// bind replays ibv_bind_mw, which posts a request with the window's next key.
func (r *replayer) bind(rec *vector.Record) {
	q := r.qps[rec.QP]
	r.Poison(q.sq)
	old := rec.RKey - 1
	wr := provider.SendWR{ID: rec.WRID, Opcode: provider.OpBindMW, Flags: provider.SendFlags(rec.Flags), Bind: &provider.MWBindInfo{
		Type: provider.MWType1, MW: old, RKey: rec.RKey, LKey: rec.LKey, Addr: rec.Addr, Length: rec.Len, Access: provider.Access(rec.Access)}}
	if n, err := q.p.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
		r.Differ("%d posted, %v", n, err)
	}
	r.compareSend(rec, q)
}

// compareSend compares WQEs, doorbell record and registers.
func (r *replayer) compareSend(rec *vector.Record, q *qp) {
	if db := binary.BigEndian.Uint32(q.db[4:]); db != rec.DB {
		r.Differ("doorbell record %#x, want %#x", db, rec.DB)
	}
	got := r.SentSlots(q.sq)
	r.Same("WQE", r.ours(rec, len(q.sq.Mem), rec.WQE, got), got)
	r.compareStores(rec, got, len(q.sq.Mem))
}

func (r *replayer) compareStores(rec *vector.Record, wqe []byte, ring int) {
	if rec.Stores != nil {
		r.compareTrace(rec)
		return
	}
	want := rec.UAR
	if rec.RC != 0 && rec.Bad > 0 && len(want) == 1 {
		want = []*vector.Store{ringOfGood(want[0], wqe, rec.Bad, r.Env["FAKEUV_BF"] != "0")}
	}
	stores := r.Stores()
	for _, s := range want {
		if len(s.Bytes) >= 16 && len(stores) == 1 {
			s = &vector.Store{Mmap: s.Mmap, At: s.At, Bytes: r.ours(rec, ring, s.Bytes, stores[0].Bytes)}
			want = []*vector.Store{s}
		}
	}
	r.CompareStores(want)
}

// compareTrace compares the sum of the oracle's single stores, and checks their order. The
// doorbell record comes first, followed by stores of 8 bytes at ascending addresses.
func (r *replayer) compareTrace(rec *vector.Record) {
	var sum []*vector.Store
	for i, s := range rec.Stores {
		switch {
		case i == 0 && s.DB != nil && *s.DB == 4 && len(s.Bytes) == 4:
		case i == 1 && s.DB == nil && len(s.Bytes) == 8:
			sum = []*vector.Store{{Mmap: s.Mmap, At: s.At, Bytes: append(vector.Hex(nil), s.Bytes...)}}
		case i > 1 && s.DB == nil && len(s.Bytes) == 8 && s.Mmap == sum[0].Mmap && s.At == sum[0].At+uint32(len(sum[0].Bytes)):
			sum[0].Bytes = append(sum[0].Bytes, s.Bytes...)
		default:
			r.Differ("store %d of libmlx5 is %+v", i, s)
			return
		}
	}
	r.CompareStores(sum)
}

func (r *replayer) recv(rec *vector.Record, q *qp) {
	r.Poison(q.rq)
	r.Posted(q.p.PostRecv(r.RecvWRs()))
	if db := binary.BigEndian.Uint32(q.db); db != rec.DB {
		r.Differ("doorbell record %#x, want %#x", db, rec.DB)
	}
	r.CompareReceives(q.rq)
}

func (r *replayer) srqRecv(rec *vector.Record, s *srq) {
	for i := range len(s.ring) / s.stride {
		if !s.posted[uint16(i)] {
			replay.Fill(s.ring[i*s.stride+16:(i+1)*s.stride], vector.Poison)
		}
	}
	var want []vector.Slot
	r.Must(json.Unmarshal(rec.List, &want))
	n, err := s.p.PostRecv(r.RecvWRs())
	r.Posted(n, err)
	if db := binary.BigEndian.Uint32(s.db); db != rec.DB {
		r.Differ("doorbell record %#x, want %#x", db, rec.DB)
	}
	r.compareSlots(rec, s, want[:min(n, len(want))])
}

// compareSlots compares the slots that were posted last.
func (r *replayer) compareSlots(rec *vector.Record, s *srq, want []vector.Slot) {
	for _, w := range want {
		at := int(s.next) * s.stride
		if r.newer() && uint32(s.next) != w.Slot {
			r.Differ("slot %d, want %d", s.next, w.Slot)
		}
		r.Same(fmt.Sprintf("slot %d", s.next), w.Bytes, s.ring[at+16:at+s.stride])
		s.ours[uint16(w.Slot)], s.posted[s.next] = s.next, true
		s.next = binary.BigEndian.Uint16(s.ring[at+2:])
	}
}

// reposted compares the receives that a poll has posted again by itself.
func (r *replayer) reposted(rec *vector.Record) {
	s := r.srqs[rec.On]
	if db := binary.BigEndian.Uint32(s.db); db != rec.DB {
		r.Differ("doorbell record %#x, want %#x", db, rec.DB)
	}
	var want []vector.Slot
	r.Must(json.Unmarshal(rec.List, &want))
	r.compareSlots(rec, s, want)
}
