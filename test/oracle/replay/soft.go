// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/test/oracle/vector"
)

// Soft replays the vectors of a software driver, rxe or siw. Its queues are memory of the kernel.
type Soft struct {
	// Slot, if not nil, converts the oracle's bytes of a request to the bytes that the provider must write.
	Slot func(w *vector.WR, want []byte)
	// WC, if not nil, converts the oracle's completion of an entry to the provider's.
	WC func(entry []byte, want *vector.WC)
	// Command, if not nil, is Session.Command.
	Command func(*Call)
}

// Start is Driver.Start.
func (d *Soft) Start(s *Session) func() {
	r := &soft{Session: s, Soft: d, cqs: map[string]*softCQ{}, srqs: map[string]*softRQ{}, qps: map[string]*softQP{}}
	s.Command, s.Kernel.Written = d.Command, r.written
	return r.replay
}

// soft is one session.
type soft struct {
	*Session
	*Soft
	bells int
	arms  []bool // true for solicited completions only
	cqs   map[string]*softCQ
	srqs  map[string]*softRQ
	qps   map[string]*softQP
}

type softCQ struct {
	p    provider.CQ
	ring *softRing
}

type softRQ struct {
	post func([]provider.RecvWR) (int, error)
	srq  provider.SRQ
	ring *softRing
}

type softQP struct {
	p  provider.QP
	sq *softRing
	softRQ
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

func (r *soft) replay() {
	rec := r.Rec
	switch rec.Type {
	case "cq":
		p, err := r.Context.CreateCQ(&provider.CQConfig{Entries: rec.CQE})
		r.Must(err)
		r.cqs[rec.ID] = &softCQ{p, r.cqRing()}
		r.Opened(p)
		if p.Entries() != rec.Got {
			r.Differ("%d entries, want %d", p.Entries(), rec.Got)
		}
	case "srq":
		p, err := r.Context.CreateSRQ(&provider.SRQConfig{PD: r.PD, MaxWR: rec.WR, MaxSGE: rec.SGE})
		r.Must(err)
		r.srqs[rec.ID] = &softRQ{post: p.PostRecv, srq: p, ring: r.srqRing()}
		r.Opened(p)
		// siw's provider creates an SRQ with one receive more than requested.
		if a := p.Attr(); a.MaxWR < rec.GotWR || r.rxe() && a.MaxWR != rec.GotWR || a.MaxSGE != rec.GotSGE {
			r.Differ("%d receives of %d elements, want %d of %d", a.MaxWR, a.MaxSGE, rec.GotWR, rec.GotSGE)
		}
	case "qp":
		r.createQP()
	case "modify":
		// On siw the connection manager moves QPs.
		q := r.qps[rec.QP].p
		if attr, mask := r.qpAttr(); q.Modify(attr, mask) != nil {
			q.SetState(attr.State)
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
		r.Unknown()
	}
}

func (r *soft) createQP() {
	var kind string
	r.Must(json.Unmarshal(r.Rec.Kind, &kind))
	cfg := &provider.QPConfig{
		Type: map[string]provider.QPType{"RC": provider.RC, "UC": provider.UC, "UD": provider.UD}[kind],
		PD:   r.PD, SendCQ: r.cqs[r.Rec.SCQ].p, RecvCQ: r.cqs[r.Rec.RCQ].p, Cap: Cap(r.Rec.Cap), SignalAll: r.Rec.SigAll != 0,
	}
	if s := r.srqs[r.Rec.SRQ]; s != nil {
		cfg.SRQ = s.srq
	}
	p, err := r.Context.CreateQP(cfg)
	r.Must(err)
	r.Opened(p)
	q := &softQP{p: p}
	q.post = p.PostRecv
	q.sq, q.ring = r.qpRings()
	r.qps[r.Rec.ID] = q
	if p.Num() != r.Rec.QPN {
		r.Differ("number %#x, want %#x", p.Num(), r.Rec.QPN)
	}
}

func (r *soft) send() {
	q := r.qps[r.Rec.QP]
	q.sq.poison()
	bells := r.bells
	n, err := r.Session.post(q.p, r.SendWRs())
	r.compare(q.sq, n, err, true)
	want := r.Rec.Bells
	if n == 0 {
		want = 0 // librxe also rings without a posted request
	}
	if r.bells-bells != want {
		r.Differ("%d doorbells, want %d", r.bells-bells, want)
	}
	q.sq.take(r.Rec.Take)
}

func (r *soft) recv(q *softRQ) {
	q.ring.poison()
	n, err := q.post(r.RecvWRs())
	r.compare(q.ring, n, err, false)
	q.ring.take(r.Rec.Take)
}

// compare compares the posted slots.
func (r *soft) compare(q *softRing, n int, err error, send bool) {
	var want []vector.Hex
	r.Must(json.Unmarshal(r.Rec.Slots, &want))
	// libsiw may return success for a failed list. Then it still names the bad request.
	if n != len(want) || (err == nil) != (r.Rec.RC == 0 && r.Rec.Bad < 0) {
		r.Differ("%d posted, %v; want %d, errno %d, bad %d", n, err, len(want), r.Rec.RC, r.Rec.Bad)
	}
	if r.Rec.RC == int(syscall.ENOMEM) && !errors.Is(err, provider.ErrFull) {
		r.Differ("%v, errno %d", err, r.Rec.RC)
	}
	if at := q.posted % uint32(q.n); at != r.Rec.At {
		r.Differ("from slot %d on, want %d", at, r.Rec.At)
	}
	for i, w := range want {
		got := q.slot(q.posted + uint32(i))
		w := written(w, got)
		if !send && !q.headed {
			w[siwOpcode] = got[siwOpcode] // the kernel writes the opcode of a receive
		}
		if send && r.Slot != nil {
			r.Slot(r.Rec.WRs[i], w)
		}
		if !bytes.Equal(w, got) {
			r.Differ("request %d: %s", i, Diff(w, got))
		}
	}
	q.posted += uint32(len(want))
	if q.headed && q.producer() != r.Rec.DB {
		r.Differ("producer index %d, want %d", q.producer(), r.Rec.DB)
	}
}

func (r *soft) poll() {
	c := r.cqs[r.Rec.CQ]
	for _, e := range r.Rec.CQEs {
		if at := c.ring.posted % uint32(c.ring.n); at != e.Slot {
			r.Differ("entry %d, want %d", at, e.Slot)
		}
		c.ring.add(e.Bytes)
	}
	wcs := make([]provider.WC, r.Rec.Max)
	n, err := c.p.Poll(wcs)
	if n != r.Rec.N || err != nil {
		r.Differ("%d completions, %v; want %d", n, err, r.Rec.N)
	}
	for i, w := range r.Rec.WCs[:min(n, len(r.Rec.WCs))] {
		if r.WC != nil {
			r.WC(c.ring.slot(c.ring.taken+uint32(i)), w)
		}
		if d := DiffWC(w, &wcs[i]); d != "" {
			r.Differ("completion %d:%s", i, d)
		}
	}
	c.ring.taken += uint32(r.Rec.N)
	c.compareIndex(r)
}

func (r *soft) arm() {
	c := r.cqs[r.Rec.CQ]
	r.arms = nil
	r.Must(c.p.Arm(r.Rec.Solicited != 0))
	if c.ring.headed {
		if len(r.arms) != r.Rec.Bells || r.arms[0] != (r.Rec.Arm != 0) {
			r.Differ("armed by commands %v, want %d, solicited %d", r.arms, r.Rec.Bells, r.Rec.Arm)
		}
		return
	}
	if w := c.ring.control(); w != r.Rec.Arm {
		r.Differ("word %#x, want %#x", w, r.Rec.Arm)
	}
}
