// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// CreateQP makes a queue pair in state QPReset. The caller closes it.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	q, err := p.createQP(cfg.withDefaults(&p.dev.attr))
	return q, p.dev.opError("create QP on", err)
}

func (p *PD) createQP(cfg QPConfig) (*QP, error) {
	if int(cfg.Type) >= len(moves) || !moves[cfg.Type][QPReset][QPInit].ok {
		return nil, fmt.Errorf("QP type %v: %w", cfg.Type, errors.ErrUnsupported)
	}
	if d, ok := p.dev.ctx.(provider.InlineLimiter); ok {
		cfg.Cap.Inline = max(cfg.Cap.Inline, min(cfg.PreferredInline, d.MaxInline()))
	}
	if err := p.dev.checkCap(&cfg.Cap); err != nil {
		return nil, err
	}
	q := &QP{pd: p, typ: cfg.Type, signalAll: cfg.SignalAll, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ, srq: cfg.SRQ, xrcd: cfg.XRCD}
	if err := q.create(&cfg); err != nil {
		return nil, errors.Join(err, q.closeOwned())
	}
	return q, nil
}

func (q *QP) create(cfg *QPConfig) error {
	p := q.pd
	if err := q.makeCQs(cfg); err != nil {
		return err
	}
	pcfg := qpConfigs.get()
	defer qpConfigs.put(pcfg)
	*pcfg = provider.QPConfig{
		Type:         cfg.Type,
		PD:           p.p,
		Cap:          cfg.Cap,
		SignalAll:    cfg.SignalAll,
		Unlocked:     cfg.Unlocked,
		MaxLSOHeader: cfg.MaxLSOHeader,

		NoScatterToCQE: cfg.NoScatterToCQE,
		Failed:         q.providerFailed,
	}
	for _, c := range []struct {
		cq *CQ
		p  *provider.CQ
	}{{q.sendCQ, &pcfg.SendCQ}, {q.recvCQ, &pcfg.RecvCQ}} {
		switch {
		case c.cq == nil:
		case c.cq.dev != p.dev:
			return fmt.Errorf("CQ of another device: %w", syscall.EINVAL)
		default:
			*c.p = c.cq.p
		}
	}
	if q.xrcd != nil {
		if q.xrcd.dev.deviceContext != p.dev {
			return fmt.Errorf("XRC domain of another device: %w", syscall.EINVAL)
		}
		pcfg.XRCD = q.xrcd.p
	}
	if q.srq != nil {
		if q.srq.pd.dev != p.dev {
			return fmt.Errorf("SRQ of another device: %w", syscall.EINVAL)
		}
		pcfg.SRQ = q.srq.p
	}
	if err := q.useParents(); err != nil {
		return err
	}
	q.handle = p.dev.objects.add(q)
	pcfg.UserHandle = q.handle
	k, err := p.dev.ctx.CreateQP(pcfg)
	if err != nil {
		p.dev.objects.remove(q.handle)
		return errors.Join(p.dev.queueError(err), q.dropParents())
	}
	p.dev.closing.wait(k.Num())
	q.p, q.cap = k, k.Cap()
	q.limitCap(cfg)
	if r, ok := k.(provider.LastWQEReporter); ok && r.ReportsLastWQE() && p.dev.events.ch != nil {
		q.lastWQE = make(token, 1)
	}
	q.leak = leak.Track("QP", p.dev.info.Name)
	p.dev.objects.made(q.handle)
	return nil
}

// parent is an object that QPs use besides their PD.
type parent interface {
	add(childKind) error
	drop(childKind) error
	retry() error
}

// parentOf is a parent of a QP, and the role of the QP in its count.
type parentOf struct {
	parent
	kind childKind
}

// maxParents is the largest number of parents that a QP has besides its PD.
const maxParents = 4

// parents appends the parents of the QP other than its PD to list. A CQ counts each queue of
// the QP.
func (q *QP) parents(list []parentOf) []parentOf {
	if q.sendCQ != nil {
		list = append(list, parentOf{q.sendCQ, kindSendQueue})
	}
	if q.recvCQ != nil {
		list = append(list, parentOf{q.recvCQ, kindRecvQueue})
	}
	if q.srq != nil {
		list = append(list, parentOf{q.srq, kindQP})
	}
	if q.xrcd != nil {
		list = append(list, parentOf{q.xrcd, kindQP})
	}
	return list
}

// useParents counts the QP as a user of its parents.
func (q *QP) useParents() error {
	if err := q.pd.attach(kindQP); err != nil {
		return err
	}
	parents := q.parents(make([]parentOf, 0, maxParents))
	for i, p := range parents {
		if err := p.add(p.kind); err != nil {
			return errors.Join(err, drop(parents[:i]), q.pd.detach(kindQP))
		}
	}
	return nil
}

// dropParents is the inverse of useParents.
func (q *QP) dropParents() error {
	return errors.Join(drop(q.parents(make([]parentOf, 0, maxParents))), q.pd.detach(kindQP))
}

// holdParents is bridge.Vendor.Hold.
func holdParents(pd *PD, cq *CQ, srq *SRQ) (drop, retry func() error, err error) {
	switch {
	case cq.dev != pd.dev:
		return nil, nil, fmt.Errorf("CQ of another device: %w", syscall.EINVAL)
	case srq != nil && srq.pd.dev != pd.dev:
		return nil, nil, fmt.Errorf("SRQ of another device: %w", syscall.EINVAL)
	}
	q := &QP{pd: pd, sendCQ: cq, recvCQ: cq, srq: srq}
	return q.dropParents, q.retryParents, q.useParents()
}

// drop removes a QP from the count of each of its parents.
func drop(parents []parentOf) error {
	var errs error
	for _, p := range parents {
		if err := p.drop(p.kind); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// retryParents destroys the closed parents of a closed QP whose destruction has failed.
func (q *QP) retryParents() error {
	var err error
	for _, p := range q.parents(make([]parentOf, 0, maxParents)) {
		err = errors.Join(err, p.retry())
	}
	return errors.Join(err, q.pd.retry())
}

// makeCQs makes the CQs that the configuration left out. A QP that sends nothing, or receives
// nothing, has none.
func (q *QP) makeCQs(cfg *QPConfig) error {
	sends, receives := q.typ != XRCRecv, q.typ != XRCRecv && q.typ != XRCSend
	switch {
	case !sends && q.sendCQ != nil, !receives && q.recvCQ != nil, !receives && q.srq != nil:
		return fmt.Errorf("%v QP with a CQ or an SRQ that it has no use for: %w", q.typ, syscall.EINVAL)
	case (q.typ == XRCRecv) != (q.xrcd != nil):
		return fmt.Errorf("XRC domain, which QPs of type XRC_RECV have, and no others: %w", syscall.EINVAL)
	case (q.sendCQ != nil || !sends) && (q.recvCQ != nil || !receives):
		return nil
	}
	dev := q.pd.dev.self
	ch, err := dev.CreateCompChannel()
	if err != nil {
		return err
	}
	q.ownedCh = ch
	make := func(cq **CQ, entries int) error {
		if *cq != nil {
			return nil
		}
		c, err := dev.CreateCQ(CQConfig{Entries: min(entries, dev.attr.MaxCQE), Channel: ch, Spin: cfg.Spin})
		if err != nil {
			return err
		}
		*cq = c
		q.ownedCQs = append(q.ownedCQs, c)
		return nil
	}
	sendEntries, recvEntries := cfg.Cap.SendWR, q.recvEntries(cfg)
	if cfg.OneCQ && q.sendCQ == nil && q.recvCQ == nil && sends && receives {
		err := make(&q.sendCQ, sendEntries+recvEntries)
		q.recvCQ = q.sendCQ
		return err
	}
	if err := make(&q.sendCQ, sendEntries); err != nil || !receives {
		return err
	}
	return make(&q.recvCQ, recvEntries)
}

// recvEntries returns the number of receives that may complete on a CQ of the QP.
func (q *QP) recvEntries(cfg *QPConfig) int {
	if q.srq != nil {
		return q.srq.Attr().MaxWR
	}
	return cfg.Cap.RecvWR
}

// limitCap limits the capacities to the room of the CQs that were made for the QP. The queues may have more
// room than was requested, and the CQs less.
func (q *QP) limitCap(cfg *QPConfig) {
	if cfg.SendCQ == nil && q.sendCQ != nil {
		room := q.sendCQ.Entries()
		if q.sendCQ == q.recvCQ {
			recvs := min(q.recvEntries(cfg), room-1)
			q.cap.RecvWR = min(q.cap.RecvWR, recvs)
			room -= recvs
		}
		q.cap.SendWR = min(q.cap.SendWR, room)
	}
	if cfg.RecvCQ == nil && q.recvCQ != nil && q.recvCQ != q.sendCQ {
		q.cap.RecvWR = min(q.cap.RecvWR, q.recvCQ.Entries())
	}
}

// ownsCQs implements bridge.Verbs.OwnsCQs.
func (q *QP) ownsCQs() bool {
	for _, cq := range []*CQ{q.sendCQ, q.recvCQ} {
		if cq != nil && !slices.Contains(q.ownedCQs, cq) {
			return false
		}
	}
	return true
}

// closeOwned closes the CQs that were made for the QP. It keeps a CQ whose Close fails, for another
// attempt.
func (q *QP) closeOwned() error {
	var errs []error
	var left []*CQ
	for _, cq := range q.ownedCQs {
		if err := cq.Close(); err != nil {
			errs = append(errs, err)
			left = append(left, cq)
		}
	}
	if q.ownedCQs = left; len(left) > 0 || q.ownedCh == nil {
		return errors.Join(errs...)
	}
	if err := q.ownedCh.Close(); err != nil {
		return err
	}
	q.ownedCh = nil
	return nil
}
