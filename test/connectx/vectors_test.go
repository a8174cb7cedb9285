// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/oracle/vector"
)

// Requests of programs in libibverbs, with enum ibv_wr_opcode and enum ibv_send_flags.
var ibvOpcodes = []uint8{
	0: prm.WQEWrite, 1: prm.WQEWriteImm, 2: prm.WQESend, 3: prm.WQESendImm, 4: prm.WQERead, 5: prm.WQECompare, 6: prm.WQEFetchAdd,
	7: prm.WQEUMR, 8: prm.WQEUMR, 9: prm.WQESendInv,
}

const (
	ibvFence     = 1 << 0
	ibvSignaled  = 1 << 1
	ibvSolicited = 1 << 2
	ibvInline    = 1 << 3
)

// TestVectors makes the device read all recorded requests of libmlx5. The device must report no
// violation, and must decode the program's request.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../provider/mlx5/testdata/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = no vectors, %v", err)
	}
	for _, name := range files {
		f, err := vector.ReadFile(name)
		if err != nil {
			t.Fatalf("vector.ReadFile: %v", err)
		}
		v := &vectors{t: t, d: New(Config{Memory: &hostMemory{}})}
		v.d.cfg.Violation = func(x Violation) { t.Errorf("%s line %d (%s): %v", filepath.Base(name), v.line, v.name, x) }
		for _, s := range f.Sessions {
			v.session(s)
		}
		if v.requests < 1000 {
			t.Errorf("%s: the device has read %d requests, want at least 1000", name, v.requests)
		}
		t.Logf("%s: %d requests", filepath.Base(name), v.requests)
	}
}

type vectors struct {
	t        *testing.T
	d        *Device
	line     int
	name     string
	requests int
	qps      map[string]*qp
	all      map[string]bool // whether all of a QP's requests are signaled
	ahs      map[string]*vector.Record
}

func (v *vectors) session(s *vector.Session) {
	v.qps, v.all, v.ahs = make(map[string]*qp), make(map[string]bool), make(map[string]*vector.Record)
	kinds := map[string]uint64{"RC": prm.ServiceRC, "UC": prm.ServiceUC, "UD": prm.ServiceUD, "XRC_SEND": prm.ServiceXRC, "DCI": prm.ServiceDCI}
	for _, r := range s.Records {
		v.line, v.name = r.Line, r.Name
		switch r.Type {
		case "qp":
			var kind string
			if json.Unmarshal(r.Kind, &kind) == nil && r.RC == 0 {
				if service, ok := kinds[kind]; ok {
					v.qps[r.ID], v.all[r.ID] = &qp{d: v.d, n: r.QPN, service: service}, r.SigAll != 0
				}
			}
		case "ah":
			v.ahs[r.ID] = r
		case "send", "bind":
			if q := v.qps[r.QP]; q != nil && r.RC == 0 {
				v.posted(q, r)
			}
		}
	}
}

// posted reads the requests of one list.
func (v *vectors) posted(q *qp, r *vector.Record) {
	index, rest := uint16(r.At), []byte(r.WQE)
	i := 0
	for ; len(rest) >= prm.WQEBB; i++ {
		w := rest[:min(len(rest), int(prm.Ctrl.DS.Get(rest))*prm.Octoword)]
		f := &flight{index: index, opcode: uint8(prm.Ctrl.Opcode.Get(w))}
		if text := q.check(f, w); text != "" {
			v.t.Errorf("line %d (%s): %s", r.Line, r.Name, text)
			return
		}
		req := &request{}
		if text := req.parse(q.service, w); text != "" {
			v.t.Errorf("line %d (%s): %s", r.Line, r.Name, text)
			return
		}
		switch {
		case r.Type == "bind": // requests of one window, which libmlx5 generates
		case i < len(r.WRs):
			v.understood(q, r, r.WRs[i], w, req)
		default:
			v.t.Errorf("line %d (%s): unexpected request", r.Line, r.Name)
			return
		}
		v.requests++
		n := (len(w) + prm.WQEBB - 1) / prm.WQEBB
		index, rest = index+uint16(n), rest[n*prm.WQEBB:]
	}
	if i < len(r.WRs) || uint32(index) != r.DB {
		v.t.Errorf("line %d (%s): the requests end at %#x, but the doorbell record is %#x", r.Line, r.Name, index, r.DB)
	}
}

// understood compares the decoded request with the program's request.
func (v *vectors) understood(q *qp, r *vector.Record, wr *vector.WR, w []byte, req *request) {
	differs := func(what string, got, want uint64) {
		if got != want {
			v.t.Errorf("line %d (%s): %s = %#x, want %#x", r.Line, r.Name, what, got, want)
		}
	}
	differs("operation", uint64(req.opcode), uint64(ibvOpcodes[wr.Opcode]))
	if req.opcode == prm.WQEUMR {
		return
	}
	op := operations[req.opcode]
	if wr.Flags&ibvSignaled != 0 || v.all[r.QP] {
		differs("completion", prm.Ctrl.Completion.Get(w), prm.CompletionAlways)
	} else {
		differs("completion", prm.Ctrl.Completion.Get(w), prm.CompletionOnError)
	}
	differs("solicited", prm.Ctrl.Solicited.Get(w), uint64(wr.Flags&ibvSolicited/ibvSolicited))
	if wr.Flags&ibvFence != 0 && prm.Ctrl.Fence.Get(w) < prm.FenceRead {
		differs("fence", prm.Ctrl.Fence.Get(w), prm.FenceSmallAndRead)
	}
	if op.remote {
		differs("address", req.addr, wr.RAddr)
		differs("key", uint64(req.rkey), uint64(wr.RKey))
	}
	switch req.opcode {
	case prm.WQECompare:
		differs("compared", req.compare, wr.Cmp)
		differs("swapped", req.swapAdd, wr.Swap)
	case prm.WQEFetchAdd:
		differs("added", req.swapAdd, wr.Cmp)
	case prm.WQESendImm, prm.WQEWriteImm:
		differs("immediate data", uint64(req.imm), uint64(wr.Imm))
	case prm.WQESendInv:
		differs("invalidated", uint64(req.imm), uint64(wr.Inv))
	}
	ah, qpn := wr.AH, wr.RQPN
	switch {
	case q.service == prm.ServiceXRC:
		differs("SRQ", uint64(req.srqn), uint64(wr.XRCSRQN))
	case q.service == prm.ServiceDCI:
		ah, qpn = r.DC.AH, r.DC.DCTN
		differs("DC key", prm.AV.DCKey.Get(req.av), r.DC.Key)
	case req.av != nil:
		differs("Q_Key", prm.AV.QKey.Get(req.av), uint64(wr.QKey))
	}
	if req.av != nil {
		differs("QP", prm.AV.DestQPN.Get(req.av), uint64(qpn))
		if a := v.ahs[ah]; a == nil || a.Global != 0 && !bytes.Equal(prm.AV.RGID.Of(req.av), a.DGID) {
			v.t.Errorf("line %d (%s): GID = %x, want the address handle's", r.Line, r.Name, prm.AV.RGID.Of(req.av))
		}
	}
	v.data(r, wr, req)
}

// data compares the memory and the inline data of a request.
func (v *vectors) data(r *vector.Record, wr *vector.WR, req *request) {
	var pieces [][3]uint64
	var inline []byte
	for s := req.segments; len(s) > 0; {
		n := prm.DataSeg.ByteCount.Get(s)
		if prm.DataSeg.Inline.Is(s) {
			inline = append(inline, s[4:4+n]...)
			s = s[min(len(s), int(4+n+15)&^15):]
			continue
		}
		pieces = append(pieces, [3]uint64{prm.DataSeg.Address.Get(s), n, prm.DataSeg.LKey.Get(s)})
		s = s[prm.Octoword:]
	}
	var want [][3]uint64
	var text []byte
	for _, s := range wr.SGE {
		if s[1] == 0 {
			continue // libmlx5 omits them
		}
		if operations[req.opcode].atomic {
			s[1] = 8 // independent of the program's value
		}
		want = append(want, s)
		for i := range s[1] {
			text = append(text, vector.DataByte(s[0]-vector.Data+i))
		}
	}
	if len(inline) > 0 {
		if !bytes.Equal(inline, text) || len(pieces) > 0 {
			v.t.Errorf("line %d (%s): inline data = %x, want %x", r.Line, r.Name, inline, text)
		}
		return
	}
	if wr.Flags&ibvInline == 0 && !slices.Equal(pieces, want) {
		v.t.Errorf("line %d (%s): memory = %x, want %x", r.Line, r.Name, pieces, want)
	}
}
