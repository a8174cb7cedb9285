// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/oracle/vector"
)

// received polls the completion of a receive, and checks its ID.
func (r *cqRig) received(e *mlx5test.CQE, id uint64) {
	r.t.Helper()
	r.put(e)
	if wc := r.one(); wc.ID != id || wc.Err() != nil {
		r.t.Fatalf("completion = %+v, want of receive %d", wc, id)
	}
}

// TestRecorderSRQ records receives of an SRQ of RC QPs, of XRC and of a DC target, and replays the recording. Receives complete out of
// order, have empty elements, bring data in the completion, and are posted again after a page fault.
func TestRecorderSRQ(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{Payload: true})
	x, err := r.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
	}
	defer x.Close()
	lkey, _ := r.region(64, 0)
	s := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 3})
	xrc := r.srq(provider.SRQConfig{MaxWR: 5, MaxSGE: 1, XRCD: x, CQ: r.cq})
	p, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, SRQ: s, Cap: provider.QPCap{SendWR: 8, SendSGE: 1}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	t.Cleanup(func() { p.Close() })
	r.connect(p)
	dct, err := r.ctx.CreateDCT(&DCTConfig{PD: r.pd, CQ: r.cq, SRQ: s, Key: 7})
	if err != nil {
		t.Fatalf("Context.CreateDCT: %v", err)
	}
	t.Cleanup(func() { dct.Close() })
	moveTo(t, dct, provider.QPRTR)
	lists := [][]provider.SGE{nil, {{}, {Length: 64, LKey: lkey}}, {{Length: 8, LKey: lkey}, {Length: 16, LKey: lkey}, {Length: 40, LKey: lkey}}}
	for round := range 20 {
		id := uint64(10 * round)
		wrs := []provider.RecvWR{{ID: id, SGList: lists[round%3]}, {ID: id + 1, SGList: lists[(round+1)%3]}, {ID: id + 2, SGList: lists[2]}}
		if n, err := s.PostRecv(wrs); n != 3 || err != nil {
			t.Fatalf("SRQ.PostRecv = %d, %v, want 3, nil", n, err)
		}
		slot := func(id uint64) uint16 {
			for i, used := range s.list.used {
				if used && s.ids[i] == id {
					return uint16(i)
				}
			}
			t.Fatalf("receive %d is in no slot", id)
			return 0
		}
		q := p.(*QP)
		inside := q.recvCQE(slot(id + 2))
		inside.Format, inside.ByteCount, inside.Data = formatScatter32, 20, make([]byte, 20)
		r.received(inside, id+2)
		r.received(dct.recvCQE(slot(id)), id)
		if round%2 == 0 {
			fault := q.recvCQE(slot(id + 1))
			fault.Opcode, fault.Syndrome, fault.VendorSyndrome = mlx5test.CQERespErr, syndromeAborted, vendorPageFault
			r.put(fault)
			if wcs := r.poll(); len(wcs) != 0 {
				t.Fatalf("completions of a page fault = %+v, want none", wcs)
			}
		}
		r.received(q.recvCQE(slot(id+1)), id+1)
		e := &mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: xrc.index, QPN: 0x321, WQECounter: r.postSRQ(xrc, id+3, sge(8)...)}
		r.received(e, id+3)
	}
	text, f := read(t, rec)
	if n := count(f); n["srq"] != 2 || n["qp"] != 2 || n["recv"] != 80 || n["reposted"] != 10 || n["poll"] != 90 || f.Head.Lost != 0 {
		t.Errorf("recorded operations = %v, %d lost, want 2 SRQs, 2 QPs, 80 receives, 10 reposted, 90 polls, 0", n, f.Head.Lost)
	}
	if !slices.ContainsFunc(f.Sessions[0].Records, func(rec *vector.Record) bool {
		return rec.Type == "recv" && bytes.Contains(rec.List, []byte(`"bytes":"00000000000000000000000000000000000000400`))
	}) {
		t.Error("no recorded receive has an empty element before one of 64 bytes")
	}
	replayRecording(t, "srq", f)
	of := func(name string) func(*vector.Record) bool {
		return func(rec *vector.Record) bool {
			return rec.Type == "poll" && len(rec.WCs) > 0 && rec.CQEs[0].Of == name && flipBit(rec.WCs[0].ID)
		}
	}
	kinds := map[string]func(*vector.Record) bool{
		"recv: doorbell record":     func(rec *vector.Record) bool { return rec.Type == "recv" && flipBit(&rec.DB) },
		"reposted: doorbell record": func(rec *vector.Record) bool { return rec.Type == "reposted" && flipBit(&rec.DB) },
		"reposted: element":         func(rec *vector.Record) bool { return rec.Type == "reposted" && flipElement(rec) },
		"poll: slot":                func(rec *vector.Record) bool { return rec.Type == "poll" && flipBit(&rec.CQEs[0].Bytes[61]) },
	}
	for _, rec := range f.Sessions[0].Records {
		switch rec.Type {
		case "srq", "qp":
			if rec.Type == "qp" || rec.XRCD != "" {
				kinds["poll: completion of "+rec.ID] = of(rec.ID)
			}
		}
	}
	if len(kinds) != 7 {
		t.Errorf("queues with completions = %d, want 3", len(kinds)-4)
	}
	detects(t, text, kinds)
}

// flipElement changes the length of the first element of a receive.
func flipElement(rec *vector.Record) bool {
	var list []vector.Slot
	if json.Unmarshal(rec.List, &list) != nil || len(list[0].Bytes) < segment {
		return false
	}
	flipBit(&list[0].Bytes[0])
	rec.List = fmt.Appendf(nil, `[{"slot":%d,"bytes":"%x"}]`, list[0].Slot, []byte(list[0].Bytes))
	return true
}

// TestRecorderSRQWraps records more operations than a Recorder keeps. Receives from before the recording complete in it.
func TestRecorderSRQWraps(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{})
	s := r.srq(provider.SRQConfig{MaxWR: 30, MaxSGE: 1})
	p, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, SRQ: s, Cap: provider.QPCap{SendWR: 8, SendSGE: 1}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	t.Cleanup(func() { p.Close() })
	r.connect(p)
	old := r.postSRQ(s, 1<<32, sge(8)...)
	for i := range uint64(RecordedOperations) {
		r.received(p.(*QP).recvCQE(r.postSRQ(s, i, sge(8)...)), i)
	}
	r.received(p.(*QP).recvCQE(old), 1<<32)
	_, f := read(t, rec)
	if n := count(f); n["recv"]+n["poll"] < RecordedOperations-1 || f.Head.Lost == 0 {
		t.Errorf("recorded operations = %v, %d lost, want %d in total and some", n, f.Head.Lost, RecordedOperations)
	}
	replayRecording(t, "srq end", f)
}

// TestRecorderDC records and replays requests of a DC initiator.
func TestRecorderDC(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{Payload: true})
	sender := &sendRig{t: t, k: r.k, ctx: r.ctx, pd: r.pd, cq: r.cq}
	made, err := r.ctx.CreateDCI(&DCIConfig{PD: r.pd, CQ: r.cq, Cap: provider.QPCap{SendWR: 8, SendSGE: 2, Inline: 64}})
	if err != nil {
		t.Fatalf("Context.CreateDCI: %v", err)
	}
	q, _ := sender.ready(made)
	to := holder{sender.ah(provider.AHAttr{Port: 1, Global: true, GRH: provider.GlobalRoute{FlowLabel: 1, HopLimit: 9, DGID: provider.GID{15: 7}}})}
	requests := []provider.SendWR{
		{Opcode: provider.OpSend, SGList: sge(8)}, {Opcode: provider.OpWrite, SGList: sge(8)}, {Opcode: provider.OpRead, SGList: sge(8)},
		{Opcode: provider.OpFetchAdd, CompareAdd: 9, SGList: sge(8)}, {Opcode: provider.OpSendImm, ImmData: 3, InlineData: []byte("abc")},
	}
	for i := range 30 {
		wr := DCWR{SendWR: requests[i%len(requests)], Key: 0x0102030405060708, Stream: uint16(i)}
		wr.ID, wr.Flags, wr.AH, wr.RemoteQPN, wr.RemoteAddr, wr.RKey = uint64(i), provider.SendSignaled, to, 0x77, 0x7f0000000010, 0xabcd
		at := q.sq.cur
		if n, err := q.PostDC([]DCWR{wr}); n != 1 || err != nil {
			t.Fatalf("QP.PostDC = %d, %v, want 1, nil", n, err)
		}
		r.received(q.sendCQE(uint16(at), connected[wr.Opcode].code), wr.ID)
	}
	text, f := read(t, rec)
	if n := count(f); n["send"] != 30 || n["poll"] != 30 {
		t.Errorf("recorded operations = %v, want 30 sends and 30 polls", n)
	}
	replayRecording(t, "dc", f)
	detects(t, text, detectedSends)
}

// detectedSends are changes of sends that a replay detects.
var detectedSends = map[string]func(*vector.Record) bool{
	"no change":             func(*vector.Record) bool { return false },
	"send: reserved byte":   func(rec *vector.Record) bool { return rec.Type == "send" && flipBit(&rec.WQE[8]) },
	"send: doorbell record": func(rec *vector.Record) bool { return rec.Type == "send" && flipBit(&rec.DB) },
	"poll: ID":              changedWC(func(wc *vector.WC) *uint64 { return wc.ID }),
}

// TestRecorderPackets records and replays raw packets, with and without Payload.
func TestRecorderPackets(t *testing.T) {
	for _, payload := range []bool{false, true} {
		r, rec := newRecordedRig(t, RecordOptions{Payload: payload})
		sender := &sendRig{t: t, k: r.k, ctx: r.ctx, pd: r.pd, cq: r.cq}
		r.ctx.caps.flags |= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
		r.ctx.caps.tso = abi.Mlx5TSOCaps{MaxTSO: 1 << 18, SupportedQPTs: 1 << abi.IB_UVERBS_QPT_RAW_PACKET}
		cfg := sender.config(provider.RawPacket)
		cfg.MaxLSOHeader = 64
		made, err := r.ctx.CreateQP(cfg)
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		early := []provider.RecvWR{{ID: 99, SGList: sge(1500)}}
		if err := made.Modify(&provider.QPAttr{State: provider.QPInit, Port: 1}, provider.QPAttrState|provider.QPAttrPort); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		if n, err := made.PostRecv(early); n != 1 || err != nil { // before the device may see it
			t.Fatalf("QP.PostRecv = %d, %v, want 1, nil", n, err)
		}
		t.Cleanup(func() { made.Close() })
		q := made.(*QP)
		for _, s := range []provider.QPState{provider.QPRTR, provider.QPRTS} {
			if err := q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState); err != nil {
				t.Fatalf("to %v: QP.Modify: %v", s, err)
			}
		}
		r.received(q.recvCQE(0), 99)
		frame := []byte("to\x00\x00\x00\x00from\x00\x00\x08\x00the data of the packet")
		for i := range 30 {
			wr := []provider.SendWR{
				{Opcode: provider.OpSend, SGList: sge(60)},
				{Opcode: provider.OpSend, SGList: sge(60), Header: frame[:18], Flags: provider.SendIPChecksum},
				{Opcode: provider.OpSend, InlineData: frame, Header: frame[:14]},
				{Opcode: provider.OpLSO, SGList: sge(9000), Header: slices.Repeat(frame, 2)[:54], MSS: 1400},
			}[i%4]
			wr.ID, wr.Flags = uint64(i), wr.Flags|provider.SendSignaled
			at := q.sq.cur
			post(t, q, wr)
			code := uint8(opcodeSend)
			if wr.Opcode == provider.OpLSO {
				code = opcodeLSO
			}
			q.recvPosted(t, uint64(100+i), sge(1500)...)
			r.received(q.sendCQE(uint16(at), code), wr.ID)
			r.received(q.recvCQE(uint16(q.rq.head-1)), uint64(100+i))
		}
		text, f := read(t, rec)
		if n := count(f); n["send"] != 30 || n["recv"] != 31 || n["poll"] != 61 {
			t.Errorf("recorded operations = %v, want 30 sends, 31 receives and 61 polls", n)
		}
		if first := f.Sessions[0].Records[3]; first.Type != "recv" || first.DB != 0 {
			t.Errorf("first operation = %+v, want a receive that the device does not see", first)
		}
		replayRecording(t, "packets", f)
		detects(t, text, detectedSends)
	}
}

// TestRecorderBinds records and replays binds and invalidations of windows.
func TestRecorderBinds(t *testing.T) {
	r, rec := newRecordedRig(t, RecordOptions{})
	q, _ := r.madeQP(provider.QPConfig{})
	const all = provider.LocalWrite | provider.RemoteRead | provider.RemoteWrite | provider.RemoteAtomic
	binds := []*provider.MWBindInfo{
		{Type: provider.MWType1, MW: 0x1200, RKey: 0x1201, LKey: 5, Addr: 0x7000, Length: 4096, Access: provider.RemoteRead},
		{Type: provider.MWType2, MW: 0x3400, RKey: 0x3477, LKey: 5, Addr: 0x7000, Length: 1 << 31, Access: all | provider.ZeroBased},
		nil, // an invalidation
		{Type: provider.MWType1, MW: 0x1201, RKey: 0x1202},
		{Type: provider.MWType2, MW: 0x3400, RKey: 0x3478},
	}
	for i := range 40 {
		wr := provider.SendWR{ID: uint64(i), Opcode: provider.OpBindMW, Bind: binds[i%5], Flags: provider.SendSignaled}
		if wr.Bind == nil {
			wr.Opcode, wr.InvalidateRKey = provider.OpLocalInv, 0x3477
		}
		at := q.sq.cur
		post(t, q, wr)
		r.received(q.sendCQE(uint16(at), opcodeUMR), wr.ID)
	}
	text, f := read(t, rec)
	if n := count(f); n["send"] != 40 || n["poll"] != 40 {
		t.Errorf("recorded operations = %v, want 40 sends and 40 polls", n)
	}
	replayRecording(t, "binds", f)
	detects(t, text, detectedSends)
}
