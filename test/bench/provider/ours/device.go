// SPDX-License-Identifier: Apache-2.0

package main

import (
	"purerdma/provider"
	bnxtre "purerdma/provider/bnxt_re"
	"purerdma/provider/erdma"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/verbs"
)

// device is a QP on a device that is memory.
type device struct {
	qp      provider.QP
	cq      provider.CQ
	verbs   *verbs.QP
	verbsCQ *verbs.CQ
	mr      *verbs.MR

	card card

	receives bool // receives are posted
	inCQE    bool // the device puts the data of receives into completions
}

// card is the fake device behind a QP.
type card interface {
	// complete completes n posted requests of a round.
	complete(d *device, inline bool, n int)
}

// mlx5Card is a fake ConnectX.
type mlx5Card struct {
	qp *mlx5test.QP
	cq *mlx5test.CQ
	at uint16 // WQEBB, or slot, of the next request to complete
}

// newDevices creates QPs of one PD and moves them to RTS. Each has its own CQ, and all share one memory region.
func newDevices(driver string, n int, unlocked, receives bool) ([]*device, error) {
	k := mlx5test.New("mlx5_0")
	h, name := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, "mlx5_0"
	newest := func() card {
		qps, cqs := k.QPs(), k.CQs()
		return &mlx5Card{qp: qps[len(qps)-1], cq: cqs[len(cqs)-1]}
	}
	switch driver {
	case "erdma":
		k := newErdma()
		h, name = &verbs.Host{Drivers: []provider.Driver{erdma.Driver{}}, Kernel: k}, "erdma_0"
		newest = func() card { return k }
	case "bnxt_re":
		k := newBnxt()
		h, name = &verbs.Host{Drivers: []provider.Driver{bnxtre.Driver{}}, Kernel: k}, "bnxt_re0"
		newest = func() card { return k }
	}
	dev, err := h.Open(name)
	if err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.Alloc(4096, provider.LocalWrite|provider.RemoteWrite|provider.RemoteRead)
	if err != nil {
		return nil, err
	}
	var all []*device
	for range n {
		d := &device{mr: mr, receives: receives}
		if err := d.create(pd, unlocked); err != nil {
			return nil, err
		}
		d.card = newest()
		all = append(all, d)
	}
	return all, nil
}

// create creates the CQ and the QP.
func (d *device) create(pd *verbs.PD, unlocked bool) (err error) {
	size := verbs.QPCap{SendWR: 1024, RecvWR: 1, SendSGE: 1, RecvSGE: 1, Inline: length}
	if d.receives {
		size.RecvWR = maxRound
	}
	if d.verbsCQ, err = pd.Device().CreateCQ(verbs.CQConfig{Entries: 1023, Unlocked: unlocked}); err != nil {
		return err
	}
	if d.verbs, err = pd.CreateQP(verbs.QPConfig{SendCQ: d.verbsCQ, RecvCQ: d.verbsCQ, Unlocked: unlocked, Cap: size}); err != nil {
		return err
	}
	d.qp, d.cq = d.verbs.Provider(), d.verbsCQ.Provider()
	return d.connect()
}

// connect moves the QP to RTS, connected to itself.
func (d *device) connect() error {
	ah := verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, HopLimit: 64}}
	for _, s := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess},
		{verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: d.verbs.Num(), MaxDestRdAtomic: 4, MinRNRTimer: 12, AH: ah},
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer},
		{verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 4},
			verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic},
	} {
		if err := d.verbs.Modify(&s.attr, s.mask); err != nil {
			return err
		}
	}
	return nil
}

// request returns the measured request.
func (d *device) request(inline bool) provider.SendWR {
	if inline {
		return provider.SendWR{Opcode: provider.OpSend, Flags: provider.SendSignaled, InlineData: d.mr.Bytes()[:length]}
	}
	return provider.SendWR{Opcode: provider.OpWrite, Flags: provider.SendSignaled, SGList: []provider.SGE{d.mr.Slice(0, length)},
		RemoteAddr: remote.Addr, RKey: remote.RKey}
}

// builder is a provider's QP that builds requests from parts.
type builder interface {
	provider.QP
	provider.Builder
}

// batch runs one round of batches of the provider's BatchAdd, of its Builder, or of verbs.Batch.
func (d *device) batch(by string, inline bool, n, calls int) func() {
	data, sge := d.mr.Bytes()[:length], d.mr.Slice(0, length)
	switch {
	case by == "batch":
		wr := d.request(inline)
		return func() { measureBatch(d.qp, &wr, n, calls) }
	case by == "builder" && inline:
		return func() { measureBuilderInline(d.qp.(builder), data, n, calls) }
	case by == "builder":
		return func() { measureBuilderWrite(d.qp.(builder), sge, n, calls) }
	}
	b := new(verbs.Batch)
	b.Reset(d.verbs)
	if inline {
		return func() { measureVerbsBatchInline(b, data, n, calls) }
	}
	return func() { measureVerbsBatchWrite(b, sge, n, calls) }
}

// complete implements card.
func (c *mlx5Card) complete(d *device, inline bool, n int) {
	e := mlx5test.CQE{Opcode: mlx5test.CQEReq, SendOpcode: 0x08, UserIndex: c.qp.Create.UIdx, QPN: c.qp.Num}
	blocks := uint16(1)
	switch {
	case d.receives:
		e.Opcode, e.SendOpcode, e.ByteCount = mlx5test.CQERespSend, 0, received
		if d.inCQE {
			e.Format, e.Data = 1, d.mr.Bytes()[:received]
		}
	case inline:
		e.SendOpcode, blocks = 0x0a, 2
	}
	for range n {
		e.WQECounter = c.at
		if !c.cq.Complete(e.Bytes(64)) {
			panic("the CQ is full")
		}
		c.at += blocks
	}
}
