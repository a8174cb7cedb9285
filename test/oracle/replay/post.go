// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"syscall"

	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// SendWR converts a request with the objects that it refers to.
func (s *Session) SendWR(w *vector.WR) provider.SendWR {
	p := SendWR(w)
	if p.Bind != nil {
		p.Bind.Type = s.windows[p.Bind.MW]
	}
	if w.AH != "" {
		p.AH = s.AHs[w.AH]
	}
	return p
}

// SendWRs converts the requests of the record.
func (s *Session) SendWRs() []provider.SendWR {
	var wrs []provider.SendWR
	for _, w := range s.Rec.WRs {
		wrs = append(wrs, s.SendWR(w))
	}
	return wrs
}

// RecvWRs converts the receives of the record.
func (s *Session) RecvWRs() []provider.RecvWR {
	var wrs []provider.RecvWR
	for _, w := range s.Rec.WRs {
		wrs = append(wrs, RecvWR(w))
	}
	return wrs
}

// PostSend posts a list with PostSend or as a batch, and checks the QP's counters. Before the batch it discards one.
func (s *Session) PostSend(q provider.QP, wrs []provider.SendWR) (n int, err error) {
	before := q.(provider.QPCounter).Stats()
	defer func() { s.compareCounts(q, before, wrs[:n]) }()
	if s.batch {
		q.BatchBegin()
		for i := range wrs {
			if q.BatchAdd(&wrs[i]) != nil {
				break
			}
		}
		q.BatchDiscard()
		s.compareCounts(q, before, nil)
	}
	return s.post(q, wrs)
}

// post posts a list with PostSend or as a batch.
func (s *Session) post(q provider.QP, wrs []provider.SendWR) (n int, err error) {
	if !s.batch {
		return q.PostSend(wrs)
	}
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
func (s *Session) compareCounts(q provider.QP, before provider.QPStats, posted []provider.SendWR) {
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
		s.Differ("counts %+v, want %+v", got, want)
	}
}

// Posted compares the result of a post with the record.
func (s *Session) Posted(n int, err error) {
	s.Helper()
	rec := s.Rec
	want := len(rec.WRs)
	if rec.RC != 0 {
		want = rec.Bad
	}
	full := rec.RC == int(syscall.ENOMEM) && (!s.driver.InvalidIsENOMEM || rec.Name == "fill" || rec.Name == "full")
	if n != want || (err == nil) != (rec.RC == 0) || full && !errors.Is(err, provider.ErrFull) {
		s.Differ("%d posted, %v; want %d, errno %d", n, err, want, rec.RC)
	}
}

// Many posts lists of the record's request and completes them, without comparing each of them. complete adds the
// completions of n posted requests to the CQ.
func (s *Session) Many(q provider.QP, cq provider.CQ, complete func(n int)) {
	var list int
	s.Must(json.Unmarshal(s.Rec.List, &list))
	wrs, wcs := slices.Repeat(s.SendWRs(), list), make([]provider.WC, 64)
	for left := s.Rec.Count; left > 0; {
		n := int(min(left, uint64(list)))
		if got, err := s.PostSend(q, wrs[:n]); got != n || err != nil {
			s.Fatalf("%s:%d: %d left: %d posted, %v", s.file, s.Rec.Line, left, got, err)
		}
		complete(n)
		if got, err := cq.Poll(wcs); got != n || err != nil || wcs[0].Status != provider.WCSuccess {
			s.Fatalf("%s:%d: %d left: %d completions of %d, %v: %+v", s.file, s.Rec.Line, left, got, n, err, wcs[0])
		}
		left -= uint64(n)
	}
}
