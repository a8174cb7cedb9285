// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// recordingFile names one more file for TestRecordings.
var recordingFile = flag.String("recording", "", "also replay this file of a Recorder")

// TestRecordings has the driver repeat the operations of recordings, request by request. It decodes each WQE,
// builds it again, and polls each CQE again. All bytes for the device and all completions must be equal to the
// recording.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/recordings/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("filepath.Glob = %d recordings, %v, want at least 1, nil", len(files), err)
	}
	if *recordingFile != "" {
		files = append(files, replay.FromRoot(*recordingFile))
	}
	for _, name := range files {
		f, err := vector.ReadFile(name)
		if err != nil {
			t.Fatalf("vector.ReadFile: %v", err)
		}
		replayRecording(t, filepath.Base(name), f)
	}
}

// waysToPost are the ways in which a replay posts lists of requests.
var waysToPost = map[string]func(*QP, []provider.SendWR) (int, error){"post": (*QP).PostSend, "batch": postBatch, "builder": postParts}

// replayRecording replays a recording with each way to post.
func replayRecording(t *testing.T, name string, f *vector.File) {
	for how, post := range waysToPost {
		t.Run(name+"/"+how, func(t *testing.T) {
			for _, s := range f.Sessions {
				if replaySession(t, f, s, post) == 0 {
					t.Errorf("%s: no completion was compared", name)
				}
			}
		})
	}
}

// replaySession replays a session of a recording, and returns the number of compared completions.
func replaySession(t testing.TB, f *vector.File, s *vector.Session, post func(*QP, []provider.SendWR) (int, error)) int {
	r := &recordingReplay{
		sendRig: newSendRig(t, nil), post: post, lost: f.Head.Lost > 0,
		qps: map[string]*replayedQP{}, srqs: map[string]*replayedSRQ{}, cqs: map[string]*CQ{}, memory: map[uint32]span{},
	}
	for _, rec := range s.Records[1:] {
		r.collect(rec)
	}
	for lkey, m := range r.memory {
		r.pd.(*pd).regions.add(&region{key: uint64(lkey), iova: m.from, mem: make([]byte, m.to-m.from), access: provider.LocalWrite})
	}
	for _, rec := range s.Records[1:] {
		r.replay(rec)
	}
	return r.compared
}

// failing notes the failures of a replay.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	runtime.Goexit()
}

// TestRecordingsDetect checks that a replay detects a change of each result in a recording.
func TestRecordingsDetect(t *testing.T) {
	text, err := os.ReadFile("testdata/recordings/model.jsonl")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	detects(t, string(text), map[string]func(rec *vector.Record) bool{
		"no change":                  func(*vector.Record) bool { return false },
		"send: reserved byte of WQE": func(rec *vector.Record) bool { return rec.Type == "send" && flipBit(&rec.WQE[8]) },
		"send: index of WQE":         func(rec *vector.Record) bool { return rec.Type == "send" && rec.At > 0 && flipBit(&rec.WQE[2]) },
		"send: doorbell record":      func(rec *vector.Record) bool { return rec.Type == "send" && flipBit(&rec.DB) },
		"send: register":             func(rec *vector.Record) bool { return rec.Type == "send" && flipBit(&rec.UAR[0].Bytes[7]) },
		"send: half of the register": func(rec *vector.Record) bool { return rec.Type == "send" && flipHalf(rec.UAR[0]) },
		"recv: doorbell record":      func(rec *vector.Record) bool { return rec.Type == "recv" && flipBit(&rec.DB) },
		"arm: word":                  func(rec *vector.Record) bool { return rec.Type == "arm" && flipBit(&rec.Arm) },
		"arm: register":              func(rec *vector.Record) bool { return rec.Type == "arm" && flipBit(&rec.UAR[0].Bytes[1]) },
		"arm: place of the register": func(rec *vector.Record) bool { return rec.Type == "arm" && flipHalf(rec.UAR[0]) },
		"poll: consumer index":       func(rec *vector.Record) bool { return rec.Type == "poll" && flipBit(&rec.CI) },
		"poll: number":               func(rec *vector.Record) bool { return rec.Type == "poll" && flipBit(&rec.N) },
		"poll: index of the request": func(rec *vector.Record) bool { return rec.Type == "poll" && flipBit(&rec.CQEs[0].Bytes[61]) },
		"poll: ID":                   changedWC(func(wc *vector.WC) *uint64 { return wc.ID }),
		"poll: status":               changedWC(func(wc *vector.WC) *uint64 { return wc.Status }),
		"poll: opcode":               changedWC(func(wc *vector.WC) *uint64 { return wc.Opcode }),
		"poll: length":               changedWC(func(wc *vector.WC) *uint64 { return wc.ByteLen }),
		"poll: number of the QP":     changedWC(func(wc *vector.WC) *uint64 { return wc.QPN }),
		"poll: flags":                changedWC(func(wc *vector.WC) *uint64 { return wc.Flags }),
		"poll: immediate data":       changedWC(func(wc *vector.WC) *uint64 { return wc.Imm }),
	})
}

// detects replays a recording with each of the changes. A change changes the first record for which it returns true.
func detects(t *testing.T, text string, changes map[string]func(rec *vector.Record) bool) {
	t.Helper()
	for what, change := range changes {
		f, err := vector.Read(strings.NewReader(text))
		if err != nil {
			t.Fatalf("vector.Read: %v", err)
		}
		s := f.Sessions[0]
		changed := slices.ContainsFunc(s.Records, change)
		if want := what != "no change"; changed != want {
			t.Fatalf("%s: a record was changed = %v, want %v", what, changed, want)
		}
		for how, post := range waysToPost {
			tb := &failing{TB: t}
			ended := make(chan struct{})
			go func() { // a fatal failure ends it
				defer close(ended)
				replaySession(tb, f, s, post)
			}()
			<-ended
			if tb.failed != changed {
				t.Errorf("replay of %s by %s fails = %v, want %v", what, how, tb.failed, changed)
			}
		}
	}
}

// flipBit changes a bit, and returns true.
func flipBit[T byte | uint32 | uint64 | int](v *T) bool {
	*v ^= 1
	return true
}

// flipHalf changes the half of a register, which has 256 bytes.
func flipHalf(store *vector.Store) bool {
	store.At ^= 256
	return true
}

// changedWC returns a function that changes a member of a completion, if the completion has it.
func changedWC(member func(*vector.WC) *uint64) func(*vector.Record) bool {
	return func(rec *vector.Record) bool {
		if rec.Type != "poll" || len(rec.WCs) == 0 {
			return false
		}
		v := member(rec.WCs[0])
		return v != nil && flipBit(v)
	}
}

// recordingReplay replays a session of a recording.
type recordingReplay struct {
	*sendRig
	post     func(*QP, []provider.SendWR) (int, error)
	lost     bool // the recording has a beginning that was overwritten
	qps      map[string]*replayedQP
	srqs     map[string]*replayedSRQ
	cqs      map[string]*CQ
	memory   map[uint32]span // of the elements, by lkey
	compared int             // completions
}

// span is a range of addresses.
type span struct{ from, to uint64 }

// replayedQP is a QP and its rings, as memory of the device.
type replayedQP struct {
	*QP
	typ, srq           string
	sq, rq             []byte
	rqSlot             int
	sends, recvs       bool // an operation was replayed, so the queue has its position
	sendsDone, rcvDone bool // a completion was replayed, so later requests are known
}

func (r *recordingReplay) errorf(rec *vector.Record, format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("line %d, %s: "+format, append([]any{rec.Line, rec.Type}, args...)...)
}

// collect finds the memory of the elements of a record.
func (r *recordingReplay) collect(rec *vector.Record) {
	add := func(sg []provider.SGE) {
		for _, e := range sg {
			m, ok := r.memory[e.LKey]
			if !ok {
				m = span{e.Addr, e.Addr}
			}
			r.memory[e.LKey] = span{min(m.from, e.Addr), max(m.to, e.Addr+uint64(e.Length))}
		}
	}
	switch rec.Type {
	case "qp":
		var typ string
		r.must(rec, json.Unmarshal(rec.Kind, &typ))
		r.qps[rec.ID] = &replayedQP{typ: typ, srq: rec.SRQ}
	case "send":
		for _, wr := range r.requests(rec, r.qps[rec.QP].typ) {
			add(wr.SGList)
		}
	case "recv", "reposted":
		for _, wr := range r.receives(rec) {
			add(wr.SGList)
		}
	}
}

func (r *recordingReplay) must(rec *vector.Record, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("line %d, %s: %v", rec.Line, rec.Type, err)
	}
}

func (r *recordingReplay) replay(rec *vector.Record) {
	switch rec.Type {
	case "cq":
		c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: rec.Got, Vendor: &CQOptions{EntrySize: rec.CQESize}})
		r.must(rec, err)
		r.t.Cleanup(func() { c.Close() })
		r.cqs[rec.ID] = c.(*CQ)
	case "qp":
		r.createQP(rec)
	case "srq":
		r.createSRQ(rec)
	case "send":
		r.send(rec, r.qps[rec.QP])
	case "recv":
		if s := r.srqs[rec.On]; s != nil {
			r.srqRecv(rec, s)
		} else {
			r.recv(rec, r.qps[rec.On])
		}
	case "reposted":
		r.srqs[rec.On].reposted = rec
	case "poll":
		r.poll(rec, r.cqs[rec.CQ])
	case "arm":
		r.arm(rec, r.cqs[rec.CQ])
	default:
		r.t.Fatalf("line %d: unknown record %q", rec.Line, rec.Type)
	}
}

var recordedQPTypes = map[string]provider.QPType{
	"RC": provider.RC, "UC": provider.UC, "UD": provider.UD, "XRC_SEND": provider.XRCSend, "RAW_PACKET": provider.RawPacket,
	"DCI": typeDC, "DCT": typeDC,
}

// createQP creates a QP with the recorded number and sizes.
func (r *recordingReplay) createQP(rec *vector.Record) {
	q := r.qps[rec.ID]
	typ, ok := recordedQPTypes[q.typ]
	if !ok {
		r.t.Fatalf("line %d: QPs of type %s cannot be replayed", rec.Line, q.typ)
	}
	cfg := &provider.QPConfig{Type: typ, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, Cap: replay.Cap(rec.GotCap)}
	if c := r.cqs[rec.SCQ]; c != nil {
		cfg.SendCQ = c
	}
	if c := r.cqs[rec.RCQ]; c != nil {
		cfg.RecvCQ = c
	}
	if s := r.srqs[rec.SRQ]; s != nil {
		cfg.SRQ = s.SRQ
	}
	if q.typ == "DCT" {
		made, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: cfg.RecvCQ, SRQ: cfg.SRQ})
		r.must(rec, err)
		r.t.Cleanup(func() { made.Close() })
		made.num, q.QP = rec.QPN, made
		return
	}
	made, dev := r.sender(rec, q.typ, cfg)
	q.QP, q.sq, q.rq, q.rqSlot = made, dev.SQ, dev.RQ, dev.RQStride
	made.num = rec.QPN
	made.sq.setNum(rec.QPN)
	made.sq.reg.Size = uintptr(rec.BF)
}

// sender creates a QP with a send queue, and moves it to RTS. Raw packets get all features, because a recording does not have its
// device's features.
func (r *recordingReplay) sender(rec *vector.Record, typ string, cfg *provider.QPConfig) (*QP, *mlx5test.QP) {
	if typ == "DCI" {
		made, err := r.ctx.CreateDCI(&DCIConfig{PD: r.pd, CQ: cfg.SendCQ, Cap: cfg.Cap})
		r.must(rec, err)
		return r.ready(made)
	}
	cfg.MaxLSOHeader = rec.TSOHeader
	made, dev := r.qp(cfg)
	made.sq.packets = packetLimits{maxHeader: rec.TSOHeader, maxLSO: math.MaxUint32, checksums: true}
	return made, dev
}

// postBatch posts a list as a batch.
func postBatch(q *QP, wrs []provider.SendWR) (int, error) {
	return postAdded(q, wrs, (*QP).BatchAdd)
}

// postParts posts a list as a batch, with the methods of a Builder that support a request.
func postParts(q *QP, wrs []provider.SendWR) (int, error) {
	return postAdded(q, wrs, func(q *QP, wr *provider.SendWR) error {
		if wr.InlineData == nil && len(wr.SGList) != 1 || q.typ != provider.RC && q.typ != provider.UC {
			return q.BatchAdd(wr)
		}
		return addParts(q, wr)
	})
}

func postAdded(q *QP, wrs []provider.SendWR, add func(*QP, *provider.SendWR) error) (int, error) {
	q.BatchBegin()
	for i := range wrs {
		if err := add(q, &wrs[i]); err != nil {
			q.BatchDiscard()
			return 0, err
		}
	}
	return len(wrs), q.BatchPost()
}

func (r *recordingReplay) send(rec *vector.Record, q *replayedQP) {
	s := &q.QP.sq
	wrs := r.requests(rec, q.typ)
	half := uintptr(rec.UAR[0].At) & s.reg.Size
	if !q.sends || uint16(s.cur) != uint16(rec.At) { // the first one, or after a reset
		q.sends = true
		s.cur, s.reg.Offset = rec.At, half
		s.forget()
		if rec.WQE[11]>>5 == ctrlSmallFence>>5 {
			s.setFence(ctrlSmallFence)
		}
	}
	fillWith(q.sq, vector.Poison)
	for _, u := range r.k.UARs() {
		fillWith(u.Mem, vector.UARPoison)
	}
	if s.reg.Offset != half {
		r.errorf(rec, "half of the register at %#x, want %#x", s.reg.Offset, half)
	}
	if n, err := r.postTo(q, wrs); n != len(wrs) || err != nil {
		r.errorf(rec, "post of %d requests = %d, %v", len(wrs), n, err)
		return
	}
	var got []byte
	for i := range len(rec.WQE) / wqebb {
		at := (int(rec.At) + i) * wqebb % len(q.sq)
		got = append(got, q.sq[at:at+wqebb]...)
	}
	for at := 0; at < len(got); at += max(int(got[at+7]&0x3f)*segment+wqebb-1, wqebb) &^ (wqebb - 1) {
		if end := at + int(got[at+7]&0x3f)*segment; end <= len(got) {
			scrub(got[at:end], s.transport, true)
		}
	}
	if !bytes.Equal(got, rec.WQE) {
		r.errorf(rec, "WQEs %s", replay.Diff(rec.WQE, got))
	}
	if db := binary.BigEndian.Uint32(unsafe.Slice((*byte)(unsafe.Pointer(s.bell.Record)), 4)); db != rec.DB {
		r.errorf(rec, "doorbell record = %#x, want %#x", db, rec.DB)
	}
	_, _, rung := r.rung()
	if len(rung) > 8 {
		scrub(rung[:int(rung[7]&0x3f)*segment], s.transport, true)
	}
	if want := rec.UAR[0].Bytes; !bytes.Equal(rung, want) {
		r.errorf(rec, "register %s", replay.Diff(want, rung))
	}
}

// postTo posts a list in the way of the replay. There is only one way for DC.
func (r *recordingReplay) postTo(q *replayedQP, wrs []DCWR) (int, error) {
	if q.typ == "DCI" {
		return q.PostDC(wrs)
	}
	list := make([]provider.SendWR, len(wrs))
	for i := range wrs {
		list[i] = wrs[i].SendWR
	}
	return r.post(q.QP, list)
}

func (r *recordingReplay) recv(rec *vector.Record, q *replayedQP) {
	rq := &q.QP.rq
	if !q.recvs || uint16(rq.head) != uint16(rec.At) {
		q.recvs = true
		rq.head, rq.tail, rq.seen = rec.At, rec.At, rec.At
	}
	rq.mute = q.typ == "RAW_PACKET" && rec.DB == 0 // before RTR
	fillWith(q.rq, vector.Poison)
	wrs := r.receives(rec)
	if n, err := q.PostRecv(wrs); n != len(wrs) || err != nil {
		r.errorf(rec, "PostRecv of %d = %d, %v", len(wrs), n, err)
		return
	}
	if db := endian.Big32(*rq.bell); db != rec.DB {
		r.errorf(rec, "doorbell record = %#x, want %#x", db, rec.DB)
	}
	for i, want := range r.slots(rec) {
		at := (int(rec.At) + i) * q.rqSlot % len(q.rq)
		if got := q.rq[at:][:len(want)]; !bytes.Equal(got, want) {
			r.errorf(rec, "slot %d %s", i, replay.Diff(want, got))
		}
	}
}

func (r *recordingReplay) poll(rec *vector.Record, c *CQ) {
	c.ci = rec.CI - 1
	spin.StoreRelease(c.bell, endian.Big32(c.ci&0xffffff))
	if slot := c.ci & c.mask; slot != rec.CQEs[0].Slot {
		r.errorf(rec, "entry %d, want %d", slot, rec.CQEs[0].Slot)
	}
	e := bytes.Clone(rec.CQEs[0].Bytes)
	last := e[len(e)-cqeSize:]
	of := rec.CQEs[0].Of
	s := r.srqOf(of, last)
	if !r.known(rec, r.qps[of], s, last) {
		return
	}
	var index uint32
	if q := r.qps[of]; q != nil {
		index = q.index
	} else {
		index = s.index // of XRC
	}
	last[cqeUIdx+1], last[cqeUIdx+2], last[cqeUIdx+3] = byte(index>>16), byte(index>>8), byte(index)
	if s != nil && s.reposted != nil {
		s.seat(r, s.reposted)
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(c.entry(c.ci), cqeSize-len(e))), len(e)), e)
	wcs := make([]provider.WC, rec.Max)
	n, err := c.Poll(wcs)
	if n != rec.N || err != nil {
		r.errorf(rec, "Poll = %d, %v, want %d, nil", n, err, rec.N)
		return
	}
	for i, want := range rec.WCs {
		if d := replay.DiffWC(want, &wcs[i]); d != "" {
			r.errorf(rec, "completion %d:%s", i, d)
		}
	}
	if ci := endian.Big32(*c.bell); ci != rec.CI {
		r.errorf(rec, "consumer index = %#x, want %#x", ci, rec.CI)
	}
	if s != nil && s.reposted != nil {
		r.compareSlots(s.reposted, s)
		s.reposted = nil
	}
	r.compared++
}

// arm requests an event at the recorded index. The register also has the number of the CQ.
func (r *recordingReplay) arm(rec *vector.Record, c *CQ) {
	num := c.num
	defer func() { c.num = num }()
	c.num = binary.BigEndian.Uint32(rec.UAR[0].Bytes[4:])
	c.events = rec.Arm >> armSeq
	c.ci = rec.CI
	for _, u := range r.k.UARs() {
		fillWith(u.Mem, vector.UARPoison)
	}
	r.must(rec, c.Arm(rec.Solicited != 0))
	if word := endian.Big32(c.db.rec[cqArm]); word != rec.Arm {
		r.errorf(rec, "doorbell record = %#x, want %#x", word, rec.Arm)
	}
	if _, at, b := r.rung(); uint32(at) != rec.UAR[0].At || !bytes.Equal(b, rec.UAR[0].Bytes) {
		r.errorf(rec, "register at %#x %s, want at %#x", at, replay.Diff(rec.UAR[0].Bytes, b), rec.UAR[0].At)
	}
}

// known reports whether the recording has the request of a CQE. It lacks requests to queues that are not
// recorded, and requests before its beginning. The receives of an SRQ complete in any order.
func (r *recordingReplay) known(rec *vector.Record, q *replayedQP, s *replayedSRQ, cqe []byte) bool {
	if s != nil {
		slot := binary.BigEndian.Uint16(cqe[cqeLast:])
		ok := int(slot) < len(s.SRQ.list.used) && s.SRQ.list.used[slot]
		if !ok && !r.lost {
			r.errorf(rec, "the recording has no receive in slot %d of the SRQ of %s", slot, rec.CQEs[0].Of)
		}
		return ok
	}
	if q == nil {
		return false
	}
	counter := binary.BigEndian.Uint16(cqe[cqeLast:])
	done, ok := &q.sendsDone, q.QP.sq.outstanding(counter) != nil
	if op := cqe[cqeOpOwn] >> 4; op != cqeReq && op != cqeReqErr {
		if q.QP.cap.RecvWR == 0 {
			return false // an SRQ that is not recorded
		}
		done, ok = &q.rcvDone, q.QP.rq.outstanding(counter)
	}
	if !ok && (!r.lost || *done) {
		r.errorf(rec, "the recording has no request %d of %s", counter, rec.CQEs[0].Of)
	}
	*done = *done || ok
	return ok
}
