// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5_test

import (
	"encoding/binary"
	"encoding/json"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/oracle/replay"
	"purerdma/test/oracle/vector"
)

func (r *replayer) unlocked() bool { return r.Env["MLX5_SINGLE_THREADED"] == "1" }

func (r *replayer) createCQ(rec *vector.Record) {
	opt := &mlx5.CQOptions{EntrySize: rec.CQESize, Compression: mlx5.CompressionFormat(rec.Compress)}
	if rec.CQESize == 0 && r.Env["MLX5_CQE_SIZE"] == "128" {
		opt.EntrySize = 128
	}
	p, err := r.Context.CreateCQ(&provider.CQConfig{Entries: rec.CQE, Unlocked: r.unlocked(), Vendor: opt})
	if r.Refused(err) {
		return
	}
	r.Opened(p)
	if p.Entries() != rec.Got {
		r.Differ("%d entries, want %d", p.Entries(), rec.Got)
	}
	in := replay.DriverInput[abi.Mlx5CreateCQ](r.Session, replay.CreateCQ)
	r.cqs[rec.ID] = &cq{
		p: p.(*mlx5.CQ), ex: rec.Ex != 0, wcFlags: rec.WCFlags,
		size: int(in.CQESize), ring: in.BufAddr.Slice((p.Entries() + 1) * int(in.CQESize)), db: in.DBAddr.Slice(8),
	}
}

func (r *replayer) createSRQ(rec *vector.Record) {
	cfg := &provider.SRQConfig{PD: r.PD, MaxWR: rec.WR, MaxSGE: rec.SGE}
	if rec.XRCD != "" {
		cfg.XRCD, cfg.CQ = r.xrcd[rec.XRCD], r.cqs[rec.CQ].p
	}
	p, err := r.Context.CreateSRQ(cfg)
	if r.Refused(err) {
		return
	}
	r.Opened(p)
	if a := p.Attr(); a.MaxWR != rec.GotWR || a.MaxSGE != rec.GotSGE {
		r.Differ("%d receives of %d elements, want %d of %d", a.MaxWR, a.MaxSGE, rec.GotWR, rec.GotSGE)
	}
	if x, ok := p.(provider.XRCSRQ); rec.XRCD != "" && (!ok || x.Num() != rec.SRQN) {
		r.Differ("number %#x, want %#x", x.Num(), rec.SRQN)
	}
	s := &srq{p: p, stride: 32, posted: map[uint16]bool{}, ours: map[uint16]uint16{}}
	for s.stride < 16+16*p.Attr().MaxSGE {
		s.stride *= 2
	}
	slots := int(binary.NativeEndian.Uint32(r.Kernel.Last(replay.CreateSRQ).Attrs[abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR])) + 1
	in := replay.DriverInput[abi.Mlx5CreateSRQ](r.Session, replay.CreateSRQ)
	s.ring, s.db, s.uidx = in.BufAddr.Slice(slots*s.stride), in.DBAddr.Slice(8), in.UIdx
	r.srqs[rec.ID] = s
}

var qpTypes = map[string]provider.QPType{
	"RC": provider.RC, "UC": provider.UC, "UD": provider.UD, "RAW_PACKET": provider.RawPacket,
	"XRC_SEND": provider.XRCSend, "XRC_RECV": provider.XRCRecv,
}

func (r *replayer) createQP(rec *vector.Record) {
	kind := unquote(rec.Kind)
	q := &qp{}
	var err error
	switch kind {
	case "DCI":
		q.cq = r.cqs[rec.SCQ]
		q.p, err = asQP(r.mlx().CreateDCI(&mlx5.DCIConfig{PD: r.PD, CQ: q.cq.p, Cap: replay.Cap(rec.Cap), SignalAll: rec.SigAll != 0}))
	case "DCT":
		q.p, err = asQP(r.mlx().CreateDCT(&mlx5.DCTConfig{PD: r.PD, CQ: r.cqs[rec.SCQ].p, SRQ: r.srqs[rec.SRQ].p, Key: rec.DCTKey}))
	default:
		q.p, err = r.Context.CreateQP(r.qpConfig(rec, q, kind))
	}
	if r.Refused(err) {
		return
	}
	r.Opened(q.p)
	r.qps[rec.ID] = q
	r.srqOf[rec.ID] = r.srqs[rec.SRQ]
	in := replay.DriverInput[abi.Mlx5CreateQP](r.Session, replay.CreateQP)
	q.uidx = in.UIdx
	if kind == "DCT" {
		return
	}
	if got := q.p.Cap(); got != replay.Cap(rec.GotCap) {
		r.Differ("%+v, want %+v", got, replay.Cap(rec.GotCap))
	}
	if q.p.Num() != rec.QPN {
		r.Differ("number %#x, want %#x", q.p.Num(), rec.QPN)
	}
	if kind == "XRC_RECV" {
		return
	}
	rq, sq := int(in.RQWQECount)<<in.RQWQEShift, int(in.SQWQECount)*64
	q.db, q.sq.Slot, q.rq.Slot = in.DBAddr.Slice(8), 64, 1<<in.RQWQEShift
	if kind == "RAW_PACKET" {
		q.rq.Mem, q.sq.Mem = in.BufAddr.Slice(rq), in.SQBufAddr.Slice(sq)
		return
	}
	all := in.BufAddr.Slice(rq + sq)
	q.rq.Mem, q.sq.Mem = all[:rq], all[rq:]
}

// unquote returns a string of JSON, or "" if b is not a string.
func unquote(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s
}

// asQP returns q as an interface type, or nil after an error.
func asQP(q *mlx5.QP, err error) (provider.QP, error) {
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (r *replayer) qpConfig(rec *vector.Record, q *qp, kind string) *provider.QPConfig {
	cfg := &provider.QPConfig{Type: qpTypes[kind], Cap: replay.Cap(rec.Cap), SignalAll: rec.SigAll != 0, Unlocked: r.unlocked(), MaxLSOHeader: rec.TSOHeader}
	if kind == "XRC_RECV" {
		cfg.XRCD = r.xrcd["xrcd0"]
		return cfg
	}
	cfg.PD = r.PD
	q.cq = r.cqs[rec.SCQ]
	cfg.SendCQ = q.cq.p
	if c := r.cqs[rec.RCQ]; c != nil {
		cfg.RecvCQ = c.p
	}
	if s := r.srqs[rec.SRQ]; s != nil {
		cfg.SRQ = s.p
	}
	return cfg
}

// endOfRing ends the ring of a CQ during a resize, as the device does.
func (r *replayer) endOfRing(handle uint32) {
	for _, c := range r.cqs {
		if c.p.Handle() == handle {
			e := make([]byte, c.size)
			e[c.size-1] = 5 << 4
			c.add(e)
		}
	}
}

func (r *replayer) resize(rec *vector.Record) {
	c := r.cqs[rec.CQ]
	n := c.p.Entries()
	err := c.p.Resize(rec.CQE)
	if (err == nil) != (rec.RC == 0) {
		r.Differ("%v, want errno %d", err, rec.RC)
	}
	if c.p.Entries() != rec.Got {
		r.Differ("%d entries, want %d", c.p.Entries(), rec.Got)
	}
	if err == nil && c.p.Entries() != n {
		in := replay.DriverInput[abi.Mlx5ResizeCQ](r.Session, replay.ResizeCQ)
		c.ring = in.BufAddr.Slice((c.p.Entries() + 1) * c.size)
	}
	if ci := binary.BigEndian.Uint32(c.db); !resized(rec.CI, ci) {
		r.Differ("consumer index %#x, want %#x", ci, rec.CI)
	}
}
