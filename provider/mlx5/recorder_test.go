// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/oracle/vector"
)

// newRecordedRig returns a rig whose CQ and QPs are recorded.
func newRecordedRig(t testing.TB, opt RecordOptions) (*cqRig, *Recorder) {
	t.Helper()
	r := newCQRig(t, provider.CQConfig{})
	rec := r.ctx.Record(opt)
	r.cq, r.dev = r.newCQ(provider.CQConfig{Entries: 31})
	return r, rec
}

// read returns the text and the records of a recording.
func read(t testing.TB, rec *Recorder) (string, *vector.File) {
	t.Helper()
	var b bytes.Buffer
	if n, err := rec.WriteTo(&b); n != int64(b.Len()) || err != nil {
		t.Fatalf("Recorder.WriteTo = %d, %v, want %d, nil", n, err, b.Len())
	}
	text := b.String()
	f, err := vector.Read(&b)
	if err != nil {
		t.Fatalf("vector.Read: %v", err)
	}
	return text, f
}

// count returns the operations of a recording by the type of their records.
func count(f *vector.File) map[string]int {
	n := map[string]int{}
	for _, rec := range f.Sessions[0].Records {
		n[rec.Type] += max(len(rec.WRs), 1)
	}
	return n
}

// TestRecorder records requests and completions of all kinds that a replay supports, and replays the recording.
func TestRecorder(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{Payload: true})
	p, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq,
		Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 4, RecvSGE: 2, Inline: 16}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	t.Cleanup(func() { p.Close() })
	r.connect(p)
	q := p.(*QP)
	two := append(sge(100), sge(200)...)
	lists := [][]provider.SendWR{
		{{ID: 1, Opcode: provider.OpSend, SGList: sge(8), Flags: provider.SendSignaled}},
		{{ID: 2, Opcode: provider.OpWriteImm, ImmData: 77, RemoteAddr: 0x1000, RKey: 5, SGList: two, Flags: provider.SendSignaled | provider.SendSolicited}},
		{{ID: 3, Opcode: provider.OpRead, RemoteAddr: 0x1000, RKey: 5, SGList: sge(32)}, {ID: 4, Opcode: provider.OpSend, Flags: provider.SendFence | provider.SendSignaled}},
		{{ID: 5, Opcode: provider.OpFetchAdd, CompareAdd: 9, RemoteAddr: 0x1000, RKey: 5, SGList: sge(8), Flags: provider.SendSignaled}},
		{{ID: 6, Opcode: provider.OpCompareSwap, CompareAdd: 9, Swap: 8, RemoteAddr: 0x1000, RKey: 5, SGList: sge(8), Flags: provider.SendSignaled}},
		{{ID: 7, Opcode: provider.OpLocalInv, InvalidateRKey: 0x1234, Flags: provider.SendSignaled}},
		{{ID: 8, Opcode: provider.OpSendInv, InvalidateRKey: 0x99, InlineData: []byte("eight"), Flags: provider.SendSignaled}},
		{{ID: 9, Opcode: provider.OpWrite, RemoteAddr: 0x1000, RKey: 5, SGList: sge(32), Flags: provider.SendSignaled}},
	}
	for round := range 40 { // several times around all rings
		wrs := lists[round%len(lists)]
		at := q.sq.cur
		post(t, q, wrs...)
		q.recvPosted(t, uint64(100+round), sge(64)...)
		for range wrs[1:] {
			at++ // the first request of such a list has one block
		}
		last := wrs[len(wrs)-1]
		opcode := connected[last.Opcode].code
		if err := r.cq.Arm(round%3 == 0); err != nil {
			t.Fatalf("CQ.Arm: %v", err)
		}
		if round%2 == 0 {
			r.cq.Event()
		}
		r.put(q.sendCQE(uint16(at), opcode), q.recvCQE(uint16(q.rq.head-1)))
		wcs := r.poll()
		if len(wcs) != 2 || wcs[0].ID != last.ID || wcs[1].ID != uint64(100+round) || wcs[0].Err() != nil || wcs[1].Err() != nil {
			t.Fatalf("round %d: completions %+v, want of request %d and receive %d", round, wcs, last.ID, 100+round)
		}
	}
	_, f := read(t, rec)
	if n := count(f); n["send"] != 45 || n["recv"] != 40 || n["poll"] != 80 || n["arm"] != 40 || f.Head.Lost != 0 {
		t.Errorf("recorded operations = %v, %d lost, want 45 sends, 40 receives, 80 polls, 40 arms, 0", n, f.Head.Lost)
	}
	replayRecording(t, "all", f)
}

// TestRecorderWraps records more operations than a Recorder keeps. The recording has the last ones, and begins
// with a complete list.
func TestRecorderWraps(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{})
	q, _ := r.madeQP(provider.QPConfig{})
	for round := range 2000 {
		wrs := []provider.SendWR{
			{ID: uint64(3 * round), Opcode: provider.OpWrite, SGList: sge(8)},
			{ID: uint64(3*round + 1), Opcode: provider.OpSend, SGList: sge(8), Flags: provider.SendSignaled},
		}
		at := q.sq.cur
		post(t, q, wrs...)
		r.put(q.sendCQE(uint16(at+1), opcodeSend))
		if wc := r.one(); wc.ID != wrs[1].ID {
			t.Fatalf("round %d: completion of request %d, want %d", round, wc.ID, wrs[1].ID)
		}
	}
	_, f := read(t, rec)
	// 6000 operations. The oldest kept one is the second request of a list, which is left out.
	n := count(f)
	if got := n["send"] + n["poll"]; got != RecordedOperations-1 && got != RecordedOperations || f.Head.Lost+uint64(got) != 6000 {
		t.Errorf("recorded operations = %d, %d lost, want %d or one less, 6000 in total", got, f.Head.Lost, RecordedOperations)
	}
	all := f.Sessions[0].Records
	if last := all[len(all)-1]; last.Type != "poll" || *last.WCs[0].ID != 3*1999+1 {
		t.Errorf("last record = %+v, want the completion of request %d", last, 3*1999+1)
	}
	for _, s := range all {
		if s.Type == "send" && len(s.WRs) != 2 {
			t.Fatalf("line %d: list of %d requests, want 2", s.Line, len(s.WRs))
		}
	}
	replayRecording(t, "end", f)
}

// TestRecorderArms requests more events than a Recorder keeps, or keeps operations. Each request must be behind the completion that was polled before
// it.
func TestRecorderArms(t *testing.T) {
	const rounds = 3000 // of two operations
	for every, want := range map[int]int{1: recordedArms, 3: RecordedOperations / 2 / 3} {
		r, rec := newRecordedRig(t, RecordOptions{})
		q, _ := r.madeQP(provider.QPConfig{})
		for round := range rounds {
			at := q.sq.cur
			post(t, q, provider.SendWR{ID: uint64(round), Opcode: provider.OpSend, SGList: sge(8), Flags: provider.SendSignaled})
			r.put(q.sendCQE(uint16(at), opcodeSend))
			r.one()
			if round%every != 0 {
				continue
			}
			if err := r.cq.Arm(false); err != nil {
				t.Fatalf("CQ.Arm: %v", err)
			}
		}
		_, f := read(t, rec)
		ci := uint32(0)
		arms, older := 0, 0 // than the operations
		for _, rec := range f.Sessions[0].Records {
			switch rec.Type {
			case "poll":
				ci = rec.CI
			case "arm":
				if arms++; ci == 0 {
					older++
				} else if rec.CI != ci {
					t.Fatalf("line %d: arm at index %d, want %d", rec.Line, rec.CI, ci)
				}
			}
		}
		if arms < want || arms > want+1 || older > 1 || ci != rounds {
			t.Errorf("recorded arms, one in %d rounds = %d, %d before the operations, the last completion %d, want %d or one more, at most 1, %d", every, arms, older, ci, want, rounds)
		}
	}
}

// TestRecorderPayload checks that a recording has data of messages only if it was requested. The ring also has
// data of earlier WQEs.
func TestRecorderPayload(t *testing.T) {
	const secret = "secretsecretsecretsecretsecret!!"
	for _, keep := range []bool{false, true} {
		r := newSendRig(t, nil)
		rec := r.ctx.Record(RecordOptions{Payload: keep})
		ah := holder{r.ah(provider.AHAttr{Port: 1, Global: true})}
		for _, typ := range []provider.QPType{provider.RC, provider.UD, provider.XRCSend, provider.RawPacket} {
			q, dev := r.qp(r.config(typ))
			fillWith(dev.SQ, 's')
			post(t, q, provider.SendWR{Opcode: provider.OpSend, AH: ah, InlineData: []byte(strings.Repeat(secret, 5))})
			if typ == provider.RC {
				fillWith(dev.SQ, 's')
				post(t, q, provider.SendWR{Opcode: provider.OpFetchAdd, SGList: sge(8)}, provider.SendWR{Opcode: provider.OpLocalInv})
				post(t, q, provider.SendWR{Opcode: provider.OpWrite, InlineData: []byte("s")})
			}
		}
		c := newCQRig(t, provider.CQConfig{})
		c.ctx.recorder.Store(rec)
		c.cq, c.dev = c.newCQ(provider.CQConfig{Entries: 15, Vendor: &CQOptions{EntrySize: 128}})
		lkey, _ := c.region(64, 0)
		q := c.qp(provider.RC, nil)
		for i, n := range []int{32, 64} {
			e := q.recvCQE(q.recvPosted(t, 1, provider.SGE{Length: 64, LKey: lkey}))
			e.Format, e.ByteCount = uint8(i+1), uint32(n)
			e.Data = []byte(strings.Repeat("s", n))
			c.put(e)
		}
		if wcs := c.poll(); len(wcs) != 2 || wcs[0].Err() != nil || wcs[1].Err() != nil {
			t.Fatalf("completions = %+v, want 2 successful ones", wcs)
		}
		text, _ := read(t, rec)
		if has := strings.Contains(text, "7373"); has != keep { // ss
			t.Errorf("recording with Payload = %v has data of messages = %v:\n%s", keep, has, text)
		}
	}
}

// TestRecorderOff checks that a queue that is not recorded has the fast paths, and that recording allocates
// nothing.
func TestRecorderOff(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	off, _ := r.madeQP(provider.QPConfig{})
	offCQ, offDev := r.cq, r.dev
	rec := r.ctx.Record(RecordOptions{})
	if again := r.ctx.Record(RecordOptions{Payload: true}); again != rec || again.payload {
		t.Errorf("second Record = %p, want %p without Payload", again, rec)
	}
	r.cq, r.dev = r.newCQ(provider.CQConfig{Entries: 31})
	on, _ := r.madeQP(provider.QPConfig{})
	for _, tc := range []struct {
		name     string
		q        *QP
		cq       *CQ
		dev      *mlx5test.CQ
		recorded bool
	}{{"off", off, offCQ, offDev, false}, {"on", on, r.cq, r.dev, true}} {
		s := &tc.q.sq
		if s.slow != tc.recorded || (s.fast.reg.Load() == nil) != tc.recorded || (s.recorded != nil) != tc.recorded || (tc.q.rq.recorded != nil) != tc.recorded {
			t.Errorf("%s: slow = %v, short path of BatchPost = %v, want %v, %v", tc.name, s.slow, s.fast.reg.Load() != nil, tc.recorded, !tc.recorded)
		}
		r.cq, r.dev = tc.cq, tc.dev
		send := []provider.SendWR{{Opcode: provider.OpSend, InlineData: make([]byte, 8), Flags: provider.SendSignaled}}
		recv := []provider.RecvWR{{SGList: sge(8)}}
		var wcs [4]provider.WC
		cqes := [2][]byte{tc.q.sendCQE(0, opcodeSend).Bytes(64), tc.q.recvCQE(0).Bytes(64)}
		if n := testing.AllocsPerRun(100, func() {
			setCounter(cqes[0], uint16(s.cur))
			setCounter(cqes[1], uint16(tc.q.rq.head))
			n, err := tc.q.PostSend(send)
			m, err2 := tc.q.PostRecv(recv)
			tc.dev.Complete(cqes[0])
			tc.dev.Complete(cqes[1])
			k, err3 := tc.cq.Poll(wcs[:])
			if err := errors.Join(err, err2, err3); n != 1 || m != 1 || k != 2 || err != nil {
				t.Errorf("%s: PostSend, PostRecv, Poll = %d, %d, %d, %v, want 1, 1, 2, nil", tc.name, n, m, k, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", tc.name, n)
		}
		if fast := tc.cq.fast != fastNone; fast == tc.recorded {
			t.Errorf("%s: the next poll begins on the fast path = %v, want %v", tc.name, fast, !tc.recorded)
		}
	}
}

// TestRecorderConcurrent posts to several QPs and writes recordings, on several goroutines. Each recording must be
// complete.
func TestRecorderConcurrent(t *testing.T) {
	const posters, each = 4, 600
	r := newSendRig(t, nil)
	rec := r.ctx.Record(RecordOptions{})
	var wg sync.WaitGroup
	for range posters {
		q, dev := r.qp(r.config(provider.RC))
		for range 2 {
			wg.Go(func() {
				wrs := []provider.SendWR{{Opcode: provider.OpSend, InlineData: make([]byte, 8)}, {Opcode: provider.OpWrite, SGList: sge(8)}}
				for done := 0; done < each; {
					n, err := q.PostSend(wrs)
					if done += n; err != nil && !errors.Is(err, provider.ErrFull) {
						t.Errorf("QP.PostSend: %v", err)
						return
					} else if err != nil {
						complete(q, dev.SQ, uint32(dev.SendCounter())-1)
					}
				}
			})
		}
	}
	for range 3 {
		if _, err := rec.WriteTo(io.Discard); err != nil {
			t.Errorf("Recorder.WriteTo: %v", err)
		}
	}
	wg.Wait()
	_, f := read(t, rec)
	next := map[string]uint32{}
	for _, s := range f.Sessions[0].Records {
		if s.Type != "send" {
			continue
		}
		at, ok := next[s.QP]
		if ok && s.At != at {
			t.Fatalf("line %d: list of %s begins at block %d, want %d", s.Line, s.QP, s.At, at)
		}
		if next[s.QP] = (s.At + uint32(len(s.WQE)/wqebb)) & 0xffff; next[s.QP] != s.DB {
			t.Fatalf("line %d: doorbell record = %#x, want %#x", s.Line, s.DB, next[s.QP])
		}
	}
	if len(next) != posters {
		t.Errorf("QPs in the recording = %d, want %d", len(next), posters)
	}
}

// TestRecorderWriteError checks that WriteTo returns the error of its writer.
func TestRecorderWriteError(t *testing.T) {
	_, rec := newRecordedRig(t, RecordOptions{})
	p, w := io.Pipe()
	p.CloseWithError(io.ErrClosedPipe)
	if n, err := rec.WriteTo(w); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Recorder.WriteTo = %d, %v, want 0, io.ErrClosedPipe", n, err)
	}
}

// TestRecorderReset resets a QP with requests in flight and resizes its CQ, and replays the recording.
func TestRecorderReset(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{})
	q, _ := r.madeQP(provider.QPConfig{})
	for range 3 {
		for i := range q.cap.SendWR - 1 {
			post(t, q, provider.SendWR{ID: uint64(i), Opcode: provider.OpSend, SGList: sge(8)})
			q.recvPosted(t, uint64(i))
		}
		r.put(q.sendCQE(1, opcodeSend), q.recvCQE(0))
		if wcs := r.poll(); len(wcs) != 2 || wcs[0].ID != 1 {
			t.Fatalf("completions = %+v, want of request 1 and receive 0", wcs)
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		r.connect(q)
	}
	if err := r.cq.Resize(100); err != nil {
		t.Fatalf("CQ.Resize: %v", err)
	}
	post(t, q, provider.SendWR{ID: 9, Opcode: provider.OpSend, SGList: sge(8)})
	r.put(q.sendCQE(0, opcodeSend))
	if wc := r.one(); wc.ID != 9 {
		t.Fatalf("completion %+v, want of request 9", wc)
	}
	_, f := read(t, rec)
	if n := count(f); n["cq"] != 2 || n["poll"] != 7 {
		t.Errorf("recorded operations = %v, want 2 CQs and 7 polls", n)
	}
	replayRecording(t, "reset", f)
}

// TestRecorderTransports records and replays requests of the transports whose WQEs have a segment of their own.
func TestRecorderTransports(t *testing.T) {
	r := newSendRig(t, nil)
	rec := r.ctx.Record(RecordOptions{Payload: true})
	cq, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 31})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	t.Cleanup(func() { cq.Close() })
	devs := r.k.CQs()
	dev := devs[len(devs)-1]
	ah := holder{r.ah(provider.AHAttr{Port: 1, Global: true})}
	for _, typ := range []provider.QPType{provider.UC, provider.UD, provider.XRCSend} {
		cfg := r.config(typ)
		cfg.SendCQ = cq
		q, _ := r.qp(cfg)
		for i := range 30 {
			wr := provider.SendWR{ID: uint64(i), Opcode: provider.OpSendImm, ImmData: 7, AH: ah, RemoteQPN: 0x77, RemoteQKey: 0x1234, RemoteSRQN: 0x55, SGList: sge(8)}
			if i%2 == 1 {
				wr.SGList, wr.InlineData = nil, make([]byte, 4*i)
			}
			at := q.sq.cur
			post(t, q, wr)
			dev.Complete(q.sendCQE(uint16(at), opcodeSendImm).Bytes(64))
			var wcs [2]provider.WC
			if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != wr.ID {
				t.Fatalf("%v: Poll = %d, %v, %+v, want request %d", typ, n, err, wcs[0], wr.ID)
			}
		}
	}
	_, f := read(t, rec)
	if n := count(f); n["qp"] != 3 || n["send"] != 90 || n["poll"] != 90 {
		t.Errorf("recorded operations = %v, want 3 QPs, 90 sends and 90 polls", n)
	}
	replayRecording(t, "transports", f)
}
