// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/vector"
	"purerdma/uverbs"
)

// Soft replays the vectors of a software driver, rxe or siw. Its queues are memory of the kernel.
type Soft struct {
	Driver provider.Driver
	Name   string
	// Slot, if not nil, converts the oracle's bytes of a request to the bytes that the provider must write.
	Slot func(w *vector.WR, want []byte)
	// WC, if not nil, converts the oracle's completion of an entry to the provider's.
	WC func(entry []byte, want *vector.WC)
	// Command, if not nil, is called with the provider's commands.
	Command func(*Call)
}

// Run replays all sessions of a file.
func (d *Soft) Run(t *testing.T, name string) {
	f, err := vector.ReadFile(name)
	if err != nil {
		t.Fatalf("vector.ReadFile: %v", err)
	}
	if f.Head.Driver != d.Name {
		t.Fatalf("driver of %s = %s, want %s", name, f.Head.Driver, d.Name)
	}
	for _, s := range f.Sessions {
		for _, batch := range []bool{false, true} {
			how := "post"
			if batch {
				how = "batch"
			}
			t.Run(s.Records[0].Name+"/"+how, func(t *testing.T) {
				r := &soft{T: t, Soft: d, file: name, batch: batch}
				r.session(s)
			})
		}
	}
}

// soft is one session.
type soft struct {
	*testing.T
	*Soft
	file  string
	batch bool
	rec   *vector.Record

	k     *Kernel
	ctx   provider.Context
	bells int
	arms  []bool // true for solicited completions only
	pd    provider.PD
	mws   map[uint32]provider.MWType
	cqs   map[string]*softCQ
	srqs  map[string]*softRQ
	qps   map[string]*softQP
	ahs   map[string]holder
	all   []interface{ Close() error }
}

type softCQ struct {
	p    provider.CQ
	ring *ring
}

type softRQ struct {
	post func([]provider.RecvWR) (int, error)
	srq  provider.SRQ
	ring *ring
}

type softQP struct {
	p  provider.QP
	sq *ring
	softRQ
}

type holder struct{ ah provider.AH }

func (h holder) ProviderAH() provider.AH { return h.ah }

// differ reports a difference from the oracle.
func (r *soft) differ(format string, args ...any) {
	r.Helper()
	r.Errorf("%s:%d %s %q: %s", r.file, r.rec.Line, r.rec.Type, r.rec.Name, fmt.Sprintf(format, args...))
}

func (r *soft) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s:%d: %v", r.file, r.rec.Line, err)
	}
}

func (r *soft) session(s *vector.Session) {
	_, version := r.Driver.ABIVersions()
	r.k = NewKernel(s, r.Driver.ID(), r.Name+"0", version)
	r.k.Answer = r.Command
	r.k.Written = r.written
	r.mws, r.cqs, r.srqs = map[uint32]provider.MWType{}, map[string]*softCQ{}, map[string]*softRQ{}
	r.qps, r.ahs = map[string]*softQP{}, map[string]holder{}
	r.rec = s.Records[0]
	f, err := uverbs.Open(r.k, r.k.Device())
	r.must(err)
	r.ctx, err = r.Driver.Open(f)
	r.must(err)
	for _, r.rec = range s.Records[1:] {
		r.replay()
	}
	for i := len(r.all) - 1; i >= 0; i-- {
		if err := r.all[i].Close(); err != nil {
			r.Errorf("Close of %T: %v", r.all[i], err)
		}
	}
	r.must(f.Close())
}

// written handles the commands of the data path.
func (r *soft) written(num uint32, body []byte) error {
	switch num {
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		r.bells++
		return nil
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		r.arms = append(r.arms, abi.View[abi.UverbsReqNotifyCQ](body).SolicitedOnly != 0)
		return nil
	}
	return fmt.Errorf("unexpected command %d by write(2)", num)
}

func (r *soft) opened(c interface{ Close() error }) { r.all = append(r.all, c) }

func (r *soft) replay() {
	rec := r.rec
	switch rec.Type {
	case "pd":
		var err error
		r.pd, err = r.ctx.AllocPD()
		r.must(err)
		r.opened(r.pd)
	case "mr": // elements use its key, and no test reads the memory
	case "mw":
		var typ provider.MWType
		r.must(json.Unmarshal(rec.Kind, &typ))
		m, err := r.ctx.AllocMW(r.pd, typ)
		r.must(err)
		r.mws[m.RKey()] = typ
		r.opened(m)
	case "ah":
		a := provider.AHAttr{Global: true, Port: rec.Port, GRH: provider.GlobalRoute{HopLimit: rec.Hop}}
		copy(a.GRH.DGID[:], rec.DGID)
		p, err := r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: a})
		r.must(err)
		r.ahs[rec.ID] = holder{p}
		r.opened(p)
	case "cq":
		p, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: rec.CQE})
		r.must(err)
		r.cqs[rec.ID] = &softCQ{p, r.cqRing()}
		r.opened(p)
	case "srq":
		p, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: rec.WR, MaxSGE: rec.SGE})
		r.must(err)
		r.srqs[rec.ID] = &softRQ{post: p.PostRecv, srq: p, ring: r.srqRing()}
		r.opened(p)
	case "qp":
		r.createQP()
	case "modify":
		// On siw the connection manager moves QPs.
		q := r.qps[rec.QP].p
		if err := q.Modify(&provider.QPAttr{State: States[rec.State], Port: 1}, provider.QPAttrMask(rec.Mask)); err != nil {
			q.SetState(States[rec.State])
		}
	case "send":
		r.send()
	case "recv":
		if s := r.srqs[rec.On]; s != nil {
			r.recv(s)
		} else {
			r.recv(&r.qps[rec.On].softRQ)
		}
	case "poll":
		r.poll()
	case "arm":
		r.arm()
	default:
		r.Fatalf("%s:%d: no such record: %q", r.file, rec.Line, rec.Type)
	}
}

func (r *soft) createQP() {
	var kind string
	r.must(json.Unmarshal(r.rec.Kind, &kind))
	cfg := &provider.QPConfig{
		Type: map[string]provider.QPType{"RC": provider.RC, "UC": provider.UC, "UD": provider.UD}[kind],
		PD:   r.pd, SendCQ: r.cqs[r.rec.SCQ].p, RecvCQ: r.cqs[r.rec.RCQ].p, Cap: Cap(r.rec.Cap), SignalAll: r.rec.SigAll != 0,
	}
	if s := r.srqs[r.rec.SRQ]; s != nil {
		cfg.SRQ = s.srq
	}
	p, err := r.ctx.CreateQP(cfg)
	r.must(err)
	r.opened(p)
	q := &softQP{p: p}
	q.post = p.PostRecv
	q.sq, q.ring = r.qpRings()
	r.qps[r.rec.ID] = q
	if p.Num() != r.rec.QPN {
		r.differ("number %#x, want %#x", p.Num(), r.rec.QPN)
	}
}

// give posts a list, with the posting method or with a batch.
func (r *soft) give(q provider.QP, wrs []provider.SendWR) (n int, err error) {
	if !r.batch {
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

func (r *soft) send() {
	q := r.qps[r.rec.QP]
	var wrs []provider.SendWR
	for _, w := range r.rec.WRs {
		p := SendWR(w)
		if w.AH != "" {
			p.AH = r.ahs[w.AH]
		}
		if p.Bind != nil {
			p.Bind.Type = r.mws[p.Bind.MW]
		}
		wrs = append(wrs, p)
	}
	q.sq.poison()
	bells := r.bells
	n, err := r.give(q.p, wrs)
	r.compare(q.sq, n, err, true)
	want := r.rec.Bells
	if n == 0 {
		want = 0 // librxe also rings without a posted request
	}
	if r.bells-bells != want {
		r.differ("%d doorbells, want %d", r.bells-bells, want)
	}
	q.sq.take(r.rec.Take)
}

func (r *soft) recv(q *softRQ) {
	var wrs []provider.RecvWR
	for _, w := range r.rec.WRs {
		wrs = append(wrs, RecvWR(w))
	}
	q.ring.poison()
	n, err := q.post(wrs)
	r.compare(q.ring, n, err, false)
	q.ring.take(r.rec.Take)
}

// compare compares the posted slots.
func (r *soft) compare(q *ring, n int, err error, send bool) {
	var want []vector.Hex
	r.must(json.Unmarshal(r.rec.Slots, &want))
	// libsiw may return success for a failed list. Then it still names the bad request.
	if n != len(want) || (err == nil) != (r.rec.RC == 0 && r.rec.Bad < 0) {
		r.differ("%d posted, %v; want %d, errno %d, bad %d", n, err, len(want), r.rec.RC, r.rec.Bad)
	}
	if r.rec.RC == int(syscall.ENOMEM) && !errors.Is(err, provider.ErrFull) {
		r.differ("%v, errno %d", err, r.rec.RC)
	}
	if at := q.posted % uint32(q.n); at != r.rec.At {
		r.differ("from slot %d on, want %d", at, r.rec.At)
	}
	for i, w := range want {
		got := q.slot(q.posted + uint32(i))
		w := written(w, got)
		if !send && !q.headed {
			w[siwOpcode] = got[siwOpcode] // the kernel writes the opcode of a receive
		}
		if send && r.Slot != nil {
			r.Slot(r.rec.WRs[i], w)
		}
		if !bytes.Equal(w, got) {
			r.differ("request %d: %s", i, Diff(w, got))
		}
	}
	q.posted += uint32(len(want))
	if q.headed && q.producer() != r.rec.DB {
		r.differ("producer index %d, want %d", q.producer(), r.rec.DB)
	}
}

func (r *soft) poll() {
	c := r.cqs[r.rec.CQ]
	for _, e := range r.rec.CQEs {
		if at := c.ring.posted % uint32(c.ring.n); at != e.Slot {
			r.differ("entry %d, want %d", at, e.Slot)
		}
		c.ring.add(e.Bytes)
	}
	wcs := make([]provider.WC, r.rec.Max)
	n, err := c.p.Poll(wcs)
	if n != r.rec.N || err != nil {
		r.differ("%d completions, %v; want %d", n, err, r.rec.N)
	}
	for i, w := range r.rec.WCs[:min(n, len(r.rec.WCs))] {
		if r.WC != nil {
			r.WC(c.ring.slot(c.ring.taken+uint32(i)), w)
		}
		if d := DiffWC(w, &wcs[i]); d != "" {
			r.differ("completion %d:%s", i, d)
		}
	}
	c.ring.taken += uint32(r.rec.N)
	c.compareIndex(r)
}

func (r *soft) arm() {
	c := r.cqs[r.rec.CQ]
	r.arms = nil
	r.must(c.p.Arm(r.rec.Solicited != 0))
	if c.ring.headed {
		if len(r.arms) != r.rec.Bells || r.arms[0] != (r.rec.Arm != 0) {
			r.differ("armed by commands %v, want %d, solicited %d", r.arms, r.rec.Bells, r.rec.Arm)
		}
		return
	}
	if w := c.ring.control(); w != r.rec.Arm {
		r.differ("word %#x, want %#x", w, r.rec.Arm)
	}
}
