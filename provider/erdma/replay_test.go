// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma_test

import (
	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/erdma"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

// liberdma replays the vectors of liberdma.
var liberdma = &replay.Driver{
	Driver: erdma.Driver{},
	Name:   "erdma",
	// The completion channel, which the test does not have.
	Known: []replay.Known{{Command: replay.CreateCQ, Attr: abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL}},
	Start: func(s *replay.Session) func() {
		s.Command = answerQuery
		return (&replayer{Session: s, cqs: map[string]*cq{}, qps: map[string]*qp{}}).replay
	},
}

// replayer has the provider repeat the calls of one recorded session.
type replayer struct {
	*replay.Session
	cqs map[string]*cq
	qps map[string]*qp
}

// cq holds a CQ's state in the device.
type cq struct {
	p      provider.CQ
	ring   []byte
	record []byte
	pi     uint32 // completions ever added
}

type qp struct {
	p                      provider.QP
	sq, rq                 replay.Ring
	sendRecord, recvRecord []byte
	cq                     *cq // of sends
}

func (r *replayer) replay() {
	rec := r.Rec
	switch rec.Type {
	case "cq":
		r.createCQ()
	case "qp":
		r.createQP()
	case "modify":
		// On iWARP the connection manager moves QPs. The fake kernel takes any move.
		r.Modify(r.qps[rec.QP].p)
	case "send":
		r.send()
	case "recv":
		r.recv()
	case "poll":
		r.poll()
	case "many":
		r.many()
	case "event":
		r.cqs[rec.CQ].p.(provider.EventCounter).Event()
	case "arm":
		c := r.cqs[rec.CQ]
		r.PoisonPages()
		r.Must(c.p.Arm(rec.Solicited != 0))
		r.Same("doorbell record", rec.DBRecord, c.record)
		r.CompareStores(rec.UAR)
	default:
		r.Unknown()
	}
}

func (r *replayer) createCQ() {
	p, err := r.Context.CreateCQ(&provider.CQConfig{Entries: r.Rec.CQE})
	r.Must(err)
	r.Opened(p)
	if p.Entries() != r.Rec.Got {
		r.Differ("%d entries, want %d", p.Entries(), r.Rec.Got)
	}
	in := replay.DriverInput[abi.ErdmaUreqCreateCQ](r.Session, replay.CreateCQ)
	r.cqs[r.Rec.ID] = &cq{p: p, ring: in.QbufVA.Slice(p.Entries() * slot), record: in.DBRecordVA.Slice(8)}
}

func (r *replayer) createQP() {
	rec := r.Rec
	q := &qp{cq: r.cqs[rec.SCQ]}
	var err error
	q.p, err = r.Context.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.PD, SendCQ: q.cq.p, RecvCQ: r.cqs[rec.RCQ].p, Cap: replay.Cap(rec.Cap), SignalAll: rec.SigAll != 0})
	r.Must(err)
	r.Opened(q.p)
	r.qps[rec.ID] = q
	if q.p.Num() != rec.QPN {
		r.Differ("number %#x, want %#x", q.p.Num(), rec.QPN)
	}
	in := replay.DriverInput[abi.ErdmaUreqCreateQP](r.Session, replay.CreateQP)
	sends, receives := 4*q.p.Cap().SendWR*slot, q.p.Cap().RecvWR*slot
	buf := in.QbufVA.Slice(int(in.QbufLen))
	q.sq, q.rq = replay.Ring{Mem: buf[:sends], Slot: slot}, replay.Ring{Mem: buf[(sends+4095)&^4095:][:receives], Slot: slot}
	records := in.DBRecordVA.Slice(16)
	q.sendRecord, q.recvRecord = records[:8], records[8:]
	if got, asked := q.p.Cap(), replay.Cap(rec.GotCap); got.SendWR < asked.SendWR || got.RecvWR < asked.RecvWR || got.SendSGE < asked.SendSGE || got.RecvSGE < asked.RecvSGE || got.Inline < asked.Inline {
		r.Differ("capacities %+v, want at least %+v", got, asked)
	}
}

// answerQuery responds to the query of the device, which liberdma does not send when a device is opened.
func answerQuery(c *replay.Call) {
	if c.Write == abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE {
		a := abi.UverbsExQueryDeviceResp{ResponseLength: uint32(abi.Size[abi.UverbsExQueryDeviceResp]()), Base: abi.UverbsQueryDeviceResp{AtomicCap: 1}}
		c.Oracle = &vector.Call{Out: map[string]vector.Hex{"1": abi.Bytes(&a)}}
	}
}
