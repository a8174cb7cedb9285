// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// This file converts the bytes of recordings to requests, by the layouts of the PRM.

// decodedOps has the operations by the opcodes of WQEs, and the number of segments before the data.
var decodedOps = map[uint8]struct {
	op       provider.SendOpcode
	segments int
}{
	opcodeSend: {provider.OpSend, 0}, opcodeSendImm: {provider.OpSendImm, 0}, opcodeSendInv: {provider.OpSendInv, 0},
	opcodeWrite: {provider.OpWrite, 1}, opcodeWriteImm: {provider.OpWriteImm, 1}, opcodeRead: {provider.OpRead, 1},
	opcodeAtomicCS: {provider.OpCompareSwap, 2}, opcodeAtomicFA: {provider.OpFetchAdd, 2}, opcodeUMR: {provider.OpLocalInv, 0}, opcodeLSO: {provider.OpLSO, 0},
}

// requests converts the WQEs of a record.
func (r *recordingReplay) requests(rec *vector.Record, typ string) []DCWR {
	var wrs []DCWR
	at := 0
	for _, w := range rec.WRs {
		if at+wqebb > len(rec.WQE) {
			r.t.Fatalf("line %d: %d bytes of WQEs, want %d requests", rec.Line, len(rec.WQE), len(rec.WRs))
		}
		size := int(rec.WQE[at+7]&0x3f) * segment
		wqe := rec.WQE[at:][:size]
		at += (size + wqebb - 1) &^ (wqebb - 1)
		wr := r.request(rec, wqe, typ)
		wr.ID = w.ID
		wrs = append(wrs, wr)
	}
	if at != len(rec.WQE) {
		r.t.Fatalf("line %d: %d bytes of WQEs, want %d", rec.Line, at, len(rec.WQE))
	}
	return wrs
}

// request converts a WQE.
func (r *recordingReplay) request(rec *vector.Record, wqe []byte, typ string) DCWR {
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(wqe[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(wqe[at:]) }
	op, ok := decodedOps[wqe[3]]
	if !ok {
		r.t.Fatalf("line %d: WQE of opcode %#x cannot be replayed", rec.Line, wqe[3])
	}
	wr := DCWR{SendWR: provider.SendWR{Opcode: op.op, ImmData: u32(12), InvalidateRKey: u32(12)}}
	for flag, bits := range map[provider.SendFlags]byte{provider.SendFence: ctrlFence, provider.SendSignaled: ctrlCQE, provider.SendSolicited: ctrlSolicited} {
		if wqe[11]&bits == bits {
			wr.Flags |= flag
		}
	}
	at := segment
	if typ == "XRC_SEND" && wqe[3] != opcodeUMR {
		wr.RemoteSRQN = u32(at)
		at += segment
	}
	if wqe[3] == opcodeUMR {
		if wr.Bind = r.bind(wqe); wr.Bind != nil {
			wr.Opcode = provider.OpBindMW
		}
		return wr
	}
	switch typ {
	case "RAW_PACKET":
		at += r.packet(&wr.SendWR, wqe[at:])
	case "UD", "DCI":
		var av addressVector
		for i := range av {
			av[i] = u64(at + 8*i)
		}
		wr.Key, wr.Stream = av[0], uint16(u32(8)>>8)
		wr.RemoteQKey, wr.RemoteQPN = uint32(av[0]>>32), uint32(av[1]>>32)&maxNum
		av[0], av[1] = 0, av[1]&(1<<32-1)
		wr.AH = holder{&ah{file: r.ctx.file, av: av}}
		at += 8 * len(av)
	}
	if op.segments > 0 {
		wr.RemoteAddr, wr.RKey = u64(at), u32(at+8)
	}
	if op.segments == 2 {
		wr.Swap, wr.CompareAdd = u64(at+16), u64(at+24)
		if wr.Opcode == provider.OpFetchAdd {
			wr.CompareAdd = wr.Swap
		}
	}
	r.data(&wr.SendWR, wqe[at+op.segments*segment:])
	if typ == "RAW_PACKET" && wr.Opcode != provider.OpLSO && wr.SGList == nil && wr.InlineData == nil {
		wr.InlineData = []byte{} // the header is the whole packet
	}
	return wr
}

// packet converts an Ethernet segment, and returns the number of its bytes with the header.
func (r *recordingReplay) packet(wr *provider.SendWR, eth []byte) int {
	n := int(binary.BigEndian.Uint16(eth[12:]))
	wr.MSS = binary.BigEndian.Uint16(eth[6:])
	if eth[4]&ethChecksums == ethChecksums {
		wr.Flags |= provider.SendIPChecksum
	}
	wr.Header = bytes.Clone(eth[ethHeaderAt:][:n])
	return max(segment, (ethHeaderAt+n+segment-1)&^(segment-1))
}

// bind converts a UMR. It returns nil for an invalidation. A bind of no memory under a key that ends in 0 has equal bytes.
func (r *recordingReplay) bind(wqe []byte) *provider.MWBindInfo {
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(wqe[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(wqe[at:]) }
	const context, memory = 4 * segment, 4*segment + wqebb
	b := &provider.MWBindInfo{Type: provider.MWType1, MW: u32(12), RKey: u32(context+4) & 0xff}
	if u64(segment+8)&maskQPN != 0 {
		b.Type = provider.MWType2
	}
	if wqe[context] == keyFree {
		if b.Type == provider.MWType2 && b.RKey == 0 {
			return nil
		}
		return b
	}
	for _, a := range []provider.Access{provider.LocalWrite, provider.RemoteWrite, provider.RemoteRead, provider.RemoteAtomic} {
		if bit := keyAccess(a); wqe[context+2]&bit != 0 {
			b.Access |= a
		}
	}
	b.Length, b.LKey, b.Addr = u64(context+24), u32(memory+4), u64(memory+8)
	if u64(context+16) == 0 && b.Addr != 0 {
		b.Access |= provider.ZeroBased
	}
	return b
}

// data converts the data segments of a WQE.
func (r *recordingReplay) data(wr *provider.SendWR, segments []byte) {
	if len(segments) > 0 && segments[0]&0x80 != 0 {
		n := binary.BigEndian.Uint32(segments) &^ inlineSegment
		wr.InlineData = bytes.Clone(segments[4:][:n])
		return
	}
	wr.SGList = elements(segments, false)
}

// elements converts data segments, up to the end of the list. The list of an SRQ can have empty elements.
func elements(segments []byte, srq bool) []provider.SGE {
	var sg []provider.SGE
	for s := segments; len(s) >= segment; s = s[segment:] {
		e := provider.SGE{Length: binary.BigEndian.Uint32(s), LKey: binary.BigEndian.Uint32(s[4:]), Addr: binary.BigEndian.Uint64(s[8:])}
		if e.Length == 0 && (!srq || e.LKey == invalidLKey) {
			break
		}
		sg = append(sg, e)
	}
	return sg
}

// slots returns the slots of a record of receives.
func (r *recordingReplay) slots(rec *vector.Record) []vector.Hex {
	var slots []vector.Hex
	r.must(rec, json.Unmarshal(rec.Slots, &slots))
	return slots
}

// receives converts the slots of a record.
func (r *recordingReplay) receives(rec *vector.Record) []provider.RecvWR {
	var wrs []provider.RecvWR
	if rec.List != nil {
		for i, s := range r.list(rec) {
			wr := provider.RecvWR{SGList: elements(s.Bytes, true)}
			if rec.Type == "recv" {
				wr.ID = rec.WRs[i].ID
			}
			wrs = append(wrs, wr)
		}
		return wrs
	}
	for i, s := range r.slots(rec) {
		wrs = append(wrs, provider.RecvWR{ID: rec.WRs[i].ID, SGList: elements(s, false)})
	}
	return wrs
}
