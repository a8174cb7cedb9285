// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"

	"purerdma/abi"
	"purerdma/provider"
	bnxtre "purerdma/provider/bnxt_re"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// libbnxtre replays the vectors of libbnxt_re.
var libbnxtre = &replay.Driver{
	Driver: bnxtre.Driver{},
	Name:   "bnxt_re",
	Known: []replay.Known{
		// The completion channel, which the test does not have.
		{Command: replay.CreateCQ, Attr: abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL},
		// The driver's handles. They are addresses in rdma-core. Only the QP's handle comes back in completions.
		{Command: replay.CreateCQ, Attr: abi.UVERBS_ATTR_UHW_IN, From: 8, To: 16},
		{Command: replay.CreateQP, Attr: abi.UVERBS_ATTR_UHW_IN, From: 16, To: 24},
		{Command: replay.CreateSRQ, Attr: abi.UVERBS_ATTR_UHW_IN, From: 8, To: 16},
		{Command: replay.ModifyQP, Attr: abi.UVERBS_ATTR_WRITE_CMD}, // see Equal
	},
	// Version 65 uses the extended form of the command, which also has a rate, for all changes of a QP.
	Equal:           map[replay.Command]replay.Command{replay.ModifyQPEx: replay.ModifyQP},
	InvalidIsENOMEM: true,
	Start: func(s *replay.Session) func() {
		r := &replayer{Session: s, cqs: map[string]*cq{}, qps: map[string]*qp{}, srqs: map[string]*srq{}}
		r.old = strings.HasPrefix(s.Head.RDMACore, "44.")
		r.is56 = strings.HasPrefix(s.Head.RDMACore, "56.")
		s.Command = r.command
		return r.replay
	},
}

// replayer has the provider repeat the calls of one recorded session.
//
// Version 44 of rdma-core is older than most features of the kernel's driver. The functions of known_test.go turn its
// results into results of the later versions.
type replayer struct {
	*replay.Session
	cqs         map[string]*cq
	qps         map[string]*qp
	srqs        map[string]*srq
	old         bool // the library is of rdma-core 44
	is56        bool // the library is of rdma-core 56
	resizing    *cq  // during a change of the size
	ahs, oldCQE uint32
	slotsOfSQ   int // in the last command for a QP
	pages       uint64
}

// cq holds a CQ's state in the device.
type cq struct {
	p      provider.CQ
	ring   []byte
	pi     int    // completions ever added
	toggle uint64 // offset of the toggle page
}

type srq struct {
	p      provider.SRQ
	ring   replay.Ring
	toggle uint64
}

type qp struct {
	p               provider.QP
	rc              bool
	cookie          uint64
	sq, rq          replay.Ring
	search          []byte // table behind the send queue
	entry           int    // bytes of an entry
	variable, msn   bool
	entries         int // requests of the ring
	index, messages int // of the next request
	cq              *cq // of sends
}

const (
	slot       = 16
	completion = 32
	maxWR      = 4096 // requests and receives of the largest queues
)

func (r *replayer) chip(feature string) bool { return strings.Contains(r.Env["FAKEUV_CHIP"], feature) }

// depth returns the number of entries of a queue that has at least n.
func (r *replayer) depth(n int) int {
	if !r.old && !r.chip("pow2") {
		return n
	}
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

func (r *replayer) replay() {
	rec := r.Rec
	switch rec.Type {
	case "cq":
		r.createCQ()
	case "srq":
		r.createSRQ()
	case "qp":
		r.createQP()
	case "modify":
		r.Modify(r.qps[rec.QP].p)
		if rec.State == "RESET" {
			r.qps[rec.QP].index = 0
		}
	case "send":
		r.send()
	case "recv":
		if s := r.srqs[rec.On]; s != nil {
			r.recv(s.p, s.ring)
		} else {
			r.recv(r.qps[rec.On].p, r.qps[rec.On].rq)
		}
	case "limit":
		s := r.srqs[rec.On]
		r.Refused(s.p.Modify(&provider.SRQAttr{Limit: rec.WR}, provider.SRQAttrLimit))
		r.setToggle(s.toggle)
	case "poll":
		r.poll()
	case "many":
		r.many()
	case "arm":
		c := r.cqs[rec.CQ]
		r.setToggle(c.toggle)
		r.PoisonPages()
		r.Must(c.p.Arm(rec.Solicited != 0))
		r.compareBells()
	case "resize":
		r.resize()
	default:
		r.Unknown()
	}
}

// setToggle has the kernel report the toggle of the record.
func (r *replayer) setToggle(page uint64) {
	if page != 0 {
		binary.LittleEndian.PutUint32(r.Kernel.Pages()[page], r.Rec.Arm)
	}
}

var getToggle = replay.Command{Object: abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM, Method: abi.BNXT_RE_METHOD_GET_TOGGLE_MEM}

// toggle returns the offset of the toggle page of a queue that was just made, 0 without one.
func (r *replayer) togglePage() uint64 {
	if r.chip("p4") || r.old {
		return 0
	}
	b, _ := vector.Attr(r.Kernel.Last(getToggle).Oracle.Out, abi.BNXT_RE_TOGGLE_MEM_MMAP_PAGE)
	return binary.NativeEndian.Uint64(b)
}

func (r *replayer) createCQ() {
	p, err := r.Context.CreateCQ(&provider.CQConfig{Entries: r.Rec.CQE})
	r.Must(err)
	r.Opened(p)
	if p.Entries() < r.Rec.CQE {
		r.Differ("%d entries, want at least %d", p.Entries(), r.Rec.CQE)
	}
	last := r.Kernel.Last(replay.CreateCQ)
	n := binary.NativeEndian.Uint32(last.Attrs[abi.UVERBS_ATTR_CREATE_CQ_CQE])
	if r.old {
		n = r.oldCQE
	}
	in := replay.DriverInput[abi.BnxtReCQReq](r.Session, replay.CreateCQ)
	depth := r.cqDepth(n)
	if depth != r.Rec.Got && !r.old {
		r.Differ("ring of %d entries, want %d", depth, r.Rec.Got)
	}
	r.cqs[r.Rec.ID] = &cq{p: p, ring: in.CQVA.Slice(depth * completion), toggle: r.togglePage()}
}

// cqDepth returns the number of entries that the kernel computes for a CQ.
func (r *replayer) cqDepth(n uint32) int { return min(r.depth(int(n)+1), 8192) }

func (r *replayer) createSRQ() {
	p, err := r.Context.CreateSRQ(&provider.SRQConfig{PD: r.PD, MaxWR: r.Rec.WR, MaxSGE: r.Rec.SGE})
	r.Must(err)
	r.Opened(p)
	if a := p.Attr(); a.MaxWR < r.Rec.GotWR || a.MaxSGE < r.Rec.GotSGE {
		r.Differ("capacities %+v, want at least %d, %d", a, r.Rec.GotWR, r.Rec.GotSGE)
	}
	in := replay.DriverInput[abi.BnxtReSRQReq](r.Session, replay.CreateSRQ)
	r.srqs[r.Rec.ID] = &srq{p: p, ring: replay.Ring{Mem: in.SRQVA.Slice(min(r.depth(r.Rec.WR+1), maxWR+1) * 128), Slot: 128}, toggle: r.togglePage()}
}

func (r *replayer) createQP() {
	rec := r.Rec
	q := &qp{cq: r.cqs[rec.SCQ], variable: !r.old && r.chip("p7"), msn: r.chip("p7") || r.chip("msn")}
	var kind string
	r.Must(json.Unmarshal(rec.Kind, &kind))
	q.rc = kind == "RC"
	want := replay.Cap(rec.Cap)
	cfg := &provider.QPConfig{Type: map[string]provider.QPType{"RC": provider.RC, "UD": provider.UD}[kind], PD: r.PD, SendCQ: q.cq.p, RecvCQ: r.cqs[rec.RCQ].p, Cap: want, SignalAll: rec.SigAll != 0}
	if rec.SRQ != "" {
		cfg.SRQ = r.srqs[rec.SRQ].p
	}
	var err error
	q.p, err = r.Context.CreateQP(cfg)
	r.Must(err)
	r.Opened(q.p)
	r.qps[rec.ID] = q
	if q.p.Num() != rec.QPN {
		r.Differ("number %#x, want %#x", q.p.Num(), rec.QPN)
	}
	if got := q.p.Cap(); got.SendWR < want.SendWR || got.RecvWR < want.RecvWR && cfg.SRQ == nil || got.SendSGE < want.SendSGE || got.Inline < want.Inline {
		r.Differ("capacities %+v, want at least %+v", got, want)
	}
	in := replay.DriverInput[abi.BnxtReQPReq](r.Session, replay.CreateQP)
	q.cookie = in.QPHandle
	// The kernel's driver makes no larger queues. libbnxt_re does, and then disagrees about the place of the table.
	q.entries = min(r.depth(want.SendWR+129), maxWR+129)
	slots, recvSGE := 8*q.entries, 6
	if q.variable {
		q.entries, slots, recvSGE = r.slotsOfSQ, r.slotsOfSQ, want.RecvSGE
	}
	positions := q.entries
	q.entry = 8
	switch {
	case q.msn:
		for positions = 1; positions < q.entries; positions *= 2 {
		}
		if q.variable {
			positions /= 2
		}
	case !r.chip("p4"):
		q.entry = 16
	}
	page := os.Getpagesize()
	buf := in.QPSVA.Slice((slots*slot + positions*q.entry + page - 1) &^ (page - 1))
	q.sq, q.search = replay.Ring{Mem: buf[:slots*slot], Slot: slot}, buf[slots*slot:][:positions*q.entry]
	if cfg.SRQ == nil {
		size := (2 + recvSGE) * slot
		q.rq = replay.Ring{Mem: in.QPRVA.Slice(min(r.depth(want.RecvWR+1), maxWR+1) * size), Slot: size}
	}
}
