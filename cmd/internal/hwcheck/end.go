// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purerdma/cm"
	"purerdma/oob"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// patience bounds the wait for a completion that the device owes. A device that needs longer is broken. Tests of
// broken devices shorten it.
var patience = 20 * time.Second

// errLost reports a completion without an event.
var errLost = errors.New("lost wake-up: a completion without an event")

// Config configures both ends of a connection.
type Config struct {
	Type      verbs.QPType
	Cap       verbs.QPCap
	SignalAll bool
	// Memory is the size of an end's memory in bytes. 0 means 64 KiB.
	Memory int
	// CQEntries is the size of the two CQs. 0 means room for the queues.
	CQEntries int
	// SRQ is the number of receives of a shared receive queue. 0 means none.
	SRQ int
	// SendEntries is the size of the CQ of sends, which may then overrun. 0 means as CQEntries.
	SendEntries int
	// Completions are options of the CQs of a ConnectX.
	Completions mlx5dv.CQOptions
	// GID chooses the GID by its kind. nil means the GID of the target.
	GID *GIDKind
	// NoScatter forbids the device to put received data into completions.
	NoScatter bool
	// Unlocked makes the QPs take no lock when they post sends (verbs.QPConfig).
	Unlocked bool
	// NoGlobal leaves out the GID of the peer, so that packets have LIDs only. It needs InfiniBand.
	NoGlobal bool
	// NoRemote makes the QP refuse READs, WRITEs and atomics of its peer.
	NoRemote bool
	// RetryCount and RNRRetryCount are as in cm.ConnParam. 0 means the defaults.
	RetryCount, RNRRetryCount int
	AckTimeout                time.Duration
	MTU                       verbs.MTU // 0 means the highest common MTU
	// Share is 1 + the number of a far end. Both ends use the memory and the queues of the
	// connection with that far end, except for the QP. 0 means objects of their own.
	Share int
}

func (c *Config) fill() {
	if c.Type == 0 {
		c.Type = verbs.RC
	}
	if c.Memory == 0 {
		c.Memory = 64 << 10
	}
	if c.Cap.SendWR == 0 {
		c.Cap.SendWR = 64
	}
	if c.Cap.RecvWR == 0 {
		c.Cap.RecvWR = 64
	}
}

// rdAtomic is the number of READs and atomics in flight. Every device supports it.
const rdAtomic = 1

// end is one end of a connection. The fields are set when the end is built.
type end struct {
	target *Target
	cfg    Config
	share  *end // of Config.Share
	dev    *verbs.Device
	pd     *verbs.PD
	// The CQs are separate so that waits for sends and receives do not mix.
	sendCQ, recvCQ *verbs.CQ
	srq            *verbs.SRQ
	qp             *verbs.QP
	mr             *verbs.MR
	path           oob.Path
	own            oob.Address
	ah             *verbs.AH // destination of datagrams
	remote         oob.Address
	conn           *cm.Conn // on iWARP
	closers        []func() error
}

func (e *end) later(close func() error) { e.closers = append(e.closers, close) }

// close closes the objects of the end in reverse order.
func (e *end) close() error {
	var errs []error
	for len(e.closers) > 0 {
		last := len(e.closers) - 1
		errs = append(errs, e.closers[last]())
		e.closers = e.closers[:last]
	}
	return errors.Join(errs...)
}

// rights returns the rights of the memory of an end.
func rights(dev *verbs.Device) verbs.Access {
	a := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	if dev.Features().Atomics {
		a |= verbs.RemoteAtomic
	}
	if dev.Features().MWType1 || dev.Features().MWType2 {
		a |= verbs.MWBind
	}
	return a
}

// build creates the objects of an end on a device.
func (e *end) build(dev *verbs.Device) (err error) {
	e.cfg.fill()
	e.dev = dev
	if s := e.share; s != nil {
		e.pd, e.sendCQ, e.recvCQ, e.srq, e.mr = s.pd, s.sendCQ, s.recvCQ, s.srq, s.mr
	} else if err := e.buildShared(); err != nil {
		return err
	}
	if e.qp, err = e.newQP(); err != nil {
		return err
	}
	e.later(e.qp.Close)
	return nil
}

// buildShared creates the objects that several QPs can share.
func (e *end) buildShared() (err error) {
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.later(e.pd.Close)
	sends, recvs := max(e.cfg.CQEntries, e.cfg.Cap.SendWR), max(e.cfg.CQEntries, e.cfg.Cap.RecvWR, e.cfg.SRQ)
	if e.cfg.SendEntries > 0 {
		sends = e.cfg.SendEntries
	}
	if e.sendCQ, err = e.newCQ(sends); err != nil {
		return err
	}
	if e.recvCQ, err = e.newCQ(recvs); err != nil {
		return err
	}
	if e.cfg.SRQ > 0 {
		if e.srq, err = e.pd.CreateSRQ(verbs.SRQConfig{MaxWR: e.cfg.SRQ, MaxSGE: e.cfg.Cap.RecvSGE}); err != nil {
			return err
		}
		e.later(e.srq.Close)
	}
	if e.mr, err = e.pd.Alloc(e.cfg.Memory, rights(e.dev)); err != nil {
		return err
	}
	e.later(e.mr.Close)
	return nil
}

func (e *end) newCQ(entries int) (*verbs.CQ, error) {
	cq, err := newCQ(e.dev, entries, e.cfg.Completions)
	if err == nil {
		e.later(cq.Close)
	}
	return cq, err
}

// newCQ creates a CQ. Options need a ConnectX.
func newCQ(dev *verbs.Device, entries int, options mlx5dv.CQOptions) (*verbs.CQ, error) {
	if options == (mlx5dv.CQOptions{}) {
		return dev.CreateCQ(verbs.CQConfig{Entries: entries})
	}
	d, err := mlx5dv.From(dev)
	if err != nil {
		return nil, err
	}
	cq, err := d.CreateCQ(verbs.CQConfig{Entries: entries}, &options)
	if err != nil {
		return nil, err
	}
	return cq.CQ, nil
}

// newQP creates a QP with the end's configuration. The caller closes it.
func (e *end) newQP() (*verbs.QP, error) {
	return e.pd.CreateQP(verbs.QPConfig{
		Type: e.cfg.Type, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SRQ: e.srq, Cap: e.cfg.Cap,
		SignalAll: e.cfg.SignalAll, NoScatterToCQE: e.cfg.NoScatter, Unlocked: e.cfg.Unlocked,
	})
}

// open creates an end on the target's device, ready for the address of its peer.
func (e *end) open() error {
	dev, err := e.target.Host.Open(e.target.Device)
	if err != nil {
		return err
	}
	e.later(dev.Close)
	if e.share != nil {
		dev = e.share.dev // objects of two openings do not mix
	}
	if err := e.build(dev); err != nil {
		return err
	}
	gid, err := e.gid()
	if err != nil {
		return err
	}
	e.path = oob.Path{
		Port: e.target.Port, SGIDIndex: gid.Index, Access: rights(dev) &^ (verbs.LocalWrite | verbs.MWBind),
		RdAtomic: rdAtomic, RetryCount: e.cfg.RetryCount, AckTimeout: e.cfg.AckTimeout,
	}
	if e.cfg.NoRemote {
		e.path.Access = 0
	}
	if e.own, err = oob.Local(e.qp, &e.path); err != nil {
		return err
	}
	return e.path.Init(e.qp)
}

// portMTU returns the MTU of the end's port.
func (e *end) portMTU() (verbs.MTU, error) {
	port, err := e.dev.QueryPort(e.target.Port)
	return port.ActiveMTU, err
}

// join connects the QP to its peer.
func (e *end) join(remote oob.Address, mtu verbs.MTU) (err error) {
	if e.cfg.NoGlobal {
		remote.GID = verbs.GID{}
	}
	e.path.MTU, e.remote = mtu, remote
	if e.cfg.MTU != 0 {
		e.path.MTU = min(mtu, e.cfg.MTU)
	}
	if err := e.path.ToRTR(e.qp, remote); err != nil {
		return err
	}
	if err := e.toRTS(); err != nil || e.cfg.Type != verbs.UD {
		return err
	}
	if e.ah, err = e.pd.CreateAH(e.path.AH(remote)); err != nil {
		return err
	}
	e.later(e.ah.Close)
	return nil
}

// toRTS moves the QP to RTS. Package oob has no bound of retries after RNR NAKs.
func (e *end) toRTS() error {
	if e.cfg.RNRRetryCount == 0 {
		return e.path.ToRTS(e.qp, e.own)
	}
	timeout, err := verbs.EncodeAckTimeout(e.cfg.AckTimeout)
	if err != nil {
		return err
	}
	return e.qp.Modify(&verbs.QPAttr{
		State: verbs.QPRTS, SQPSN: e.own.PSN, Timeout: timeout, RetryCount: uint8(e.cfg.RetryCount), RNRRetryCount: uint8(e.cfg.RNRRetryCount), MaxRdAtomic: rdAtomic,
	}, verbs.QPAttrState|verbs.QPAttrSQPSN|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrMaxRdAtomic)
}

// piece is a part of an end's memory.
type piece struct{ Off, Len int }

func (e *end) elements(pieces []piece) []verbs.SGE {
	var list []verbs.SGE
	for _, p := range pieces {
		list = append(list, e.mr.Slice(p.Off, p.Len))
	}
	return list
}

// recv posts a receive.
func (e *end) recv(id uint64, pieces []piece) error {
	wrs := []verbs.RecvWR{{ID: id, SGList: e.elements(pieces)}}
	var err error
	if e.srq != nil {
		_, err = e.srq.PostRecv(wrs)
	} else {
		_, err = e.qp.PostRecv(wrs)
	}
	return err
}

// wait returns n completions of a CQ.
func wait(ctx context.Context, cq *verbs.CQ, n int) ([]verbs.WC, error) {
	wcs := make([]verbs.WC, n)
	for got := 0; got < n; {
		k, err := waitSome(ctx, cq, wcs[got:])
		if err != nil {
			return nil, fmt.Errorf("after %d of %d completions: %w", got, n, err)
		}
		got += k
	}
	return wcs, nil
}

// waitSome waits for at least one completion. It returns errLost with the completions that are in the queue at the
// end of the time, because they have had no event.
func waitSome(ctx context.Context, cq *verbs.CQ, wcs []verbs.WC) (int, error) {
	timed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := cq.Wait(timed, wcs)
	if err == nil || timed.Err() == nil || ctx.Err() != nil {
		return n, err
	}
	if n, perr := cq.Poll(wcs); n > 0 && perr == nil {
		return n, errLost
	}
	return 0, err
}
