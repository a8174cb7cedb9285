// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"errors"
	"fmt"
	"sync"

	"purerdma/abi"
	"purerdma/internal/vmtest"
	"purerdma/pool"
	"purerdma/verbs"
)

// node is a device of this process with the resources that its ends share.
type node struct {
	s    *soak
	rdma *verbs.Host
	host vmtest.Host
	dev  *verbs.Device
	caps caps
	pds  []*verbs.PD
	ch   *verbs.CompChannel
	loop *looper
	// flightCQ is the send CQ of some flights, without other users.
	flightCQ *verbs.CQ
	cqs      []*hub

	// buffers are the pools of the flights. They do not change.
	buffers map[*verbs.PD]*pool.Pool

	mu    sync.Mutex
	inUse map[*hub]int // number of ends on a shared CQ
	pools []*srqPool
	next  int
}

// perHub is the maximum number of ends that share a CQ.
const perHub = 12

// srqID marks the receives of an SRQ. The rest of the ID is the number of its slot.
const srqID = 1 << 63

// srqPool is an SRQ with its memory, and the CQ that some of its QPs share.
type srqPool struct {
	s    *soak
	srq  *verbs.SRQ
	mr   *verbs.MR
	hub  *hub
	ends int // guarded by the node's lock
}

const perPool = 6

func openNode(s *soak, h *verbs.Host, host vmtest.Host) (*node, error) {
	n := &node{s: s, rdma: h, host: host, buffers: map[*verbs.PD]*pool.Pool{}, inUse: map[*hub]int{}}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *node) open() (err error) {
	if n.dev, err = n.rdma.Open(n.host.Device); err != nil {
		return err
	}
	for range buffersPerNode {
		pd, err := n.dev.AllocPD()
		if err != nil {
			return err
		}
		n.pds = append(n.pds, pd)
		if n.buffers[pd], err = pool.New(pd, buffersConfig()); err != nil {
			return err
		}
	}
	if err := n.explore(n.rdma.Kernel != nil); err != nil {
		return err
	}
	if n.ch, err = n.dev.CreateCompChannel(); err != nil {
		return err
	}
	if n.loop, err = newLooper(n.s, n.dev); err != nil {
		return err
	}
	if n.flightCQ, err = n.dev.CreateCQ(verbs.CQConfig{Entries: 2048}); err != nil {
		return err
	}
	for range 2 {
		h, err := newHub(n.s, n.dev, verbs.CQConfig{Entries: 2048})
		if err != nil {
			return err
		}
		n.cqs = append(n.cqs, h.wait(3))
	}
	for i := range 3 {
		if !n.caps.srq {
			break
		}
		if err := n.newPool(n.pds[i]); err != nil {
			return err
		}
	}
	return nil
}

// explore determines the abilities of the device. A kernel in memory has fewer.
func (n *node) explore(fake bool) error {
	f := n.dev.Features()
	c := caps{
		imm: f.Immediate, atomics: f.Atomics, windows: f.MWType1 && f.MWType2, readInv: f.ReadInv, atomicWrite: f.AtomicWrite, flush: f.FlushGlobal,
		srq: !fake, readSGE: min(3, n.dev.Attr().MaxSGERd),
		access: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite,
		rxe:    n.dev.DriverID() == abi.RDMA_DRIVER_RXE, iwarp: n.dev.Transport() == verbs.TransportIWARP,
	}
	if c.atomics {
		c.access |= verbs.RemoteAtomic
	}
	if c.flush {
		c.access |= verbs.FlushGlobal
	}
	if fake {
		n.caps = c
		return nil
	}
	mr, err := n.pds[0].Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return err
	}
	err = mr.Reregister(verbs.MRChange{Access: &c.access})
	if c.rereg = err == nil; err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, mr.Close())
	}
	n.caps = c
	return mr.Close()
}

func (n *node) newPool(pd *verbs.PD) (err error) {
	p := &srqPool{s: n.s}
	n.pools = append(n.pools, p)
	if p.hub, err = newHub(n.s, n.dev, verbs.CQConfig{Entries: 1024}); err != nil {
		return err
	}
	p.hub.srq = p
	if p.mr, err = pd.Alloc(perPool*recvSlots*slotLen, verbs.LocalWrite); err != nil {
		return err
	}
	if p.srq, err = pd.CreateSRQ(verbs.SRQConfig{MaxWR: perPool * recvSlots}); err != nil {
		return err
	}
	for i := range uint64(perPool * recvSlots) {
		p.post(i)
	}
	p.hub.wait(3)
	return nil
}

// post posts a slot to the SRQ again.
func (p *srqPool) post(slot uint64) {
	wr := verbs.RecvWR{ID: srqID | slot, SGList: []verbs.SGE{p.mr.Slice(int(slot)*slotLen, slotLen)}}
	if _, err := p.srq.PostRecv([]verbs.RecvWR{wr}); err != nil {
		p.s.fault("posting to an SRQ: %w", err)
	}
}

func (p *srqPool) close() (err error) {
	if p.srq != nil {
		err = p.srq.Close()
	}
	if p.mr != nil {
		err = errors.Join(err, p.mr.Close())
	}
	if p.hub != nil {
		err = errors.Join(err, p.hub.Close())
	}
	return err
}

// place contains the CQs and the receives of an end. It closes the objects that only this end
// uses.
type place struct {
	mode mode
	pd   *verbs.PD
	send *hub
	recv *hub // may be send
	pool *srqPool
	own  []interface{ Close() error }
	free func()
}

// place returns a place for an end, in another mode if there is no room.
func (n *node) place(m mode) (*place, error) {
	n.mu.Lock()
	n.next++
	pl := &place{mode: m, pd: n.pds[n.next%len(n.pds)], free: func() {}}
	if m.srq() {
		if pl.pool = n.roomInPool(); pl.pool == nil {
			pl.mode, m = ownCQ, ownCQ
		} else {
			pl.pd = pl.pool.srq.PD()
		}
	}
	if m == sharedCQ {
		for _, h := range n.cqs {
			if pl.send == nil && n.inUse[h] < perHub {
				n.inUse[h]++
				pl.send, pl.recv = h, h
				pl.free = func() { n.mu.Lock(); n.inUse[h]--; n.mu.Unlock() }
			}
		}
		if pl.send == nil {
			pl.mode, m = ownCQ, ownCQ
		}
	}
	n.mu.Unlock()
	if m == srqShared {
		pl.send, pl.recv = pl.pool.hub, pl.pool.hub
	}
	if pl.send != nil {
		return pl, nil
	}
	if err := n.ownHubs(pl); err != nil {
		return nil, errors.Join(err, pl.close(n))
	}
	return pl, nil
}

func (n *node) roomInPool() *srqPool {
	for _, p := range n.pools {
		if p.ends < perPool {
			p.ends++
			return p
		}
	}
	return nil
}

// ownHubs creates the CQs of a place that does not share them.
func (n *node) ownHubs(pl *place) error {
	make := func(cfg verbs.CQConfig) (*hub, error) {
		cfg.Entries = 2 * (sendDepth + recvSlots)
		h, err := newHub(n.s, n.dev, cfg)
		if err == nil {
			pl.own = append(pl.own, h)
			h.srq = pl.pool
		}
		return h, err
	}
	var err error
	switch pl.mode {
	case polled:
		if pl.send, err = make(verbs.CQConfig{NoEvents: true}); err == nil {
			pl.send.poll()
		}
	case oneChannel:
		if pl.send, err = make(verbs.CQConfig{Channel: n.ch}); err == nil {
			pl.send.wait(1)
		}
	case nextLoop:
		if pl.send, err = make(verbs.CQConfig{Channel: n.loop.ch}); err == nil {
			err = n.loop.add(pl.send)
		}
	case twoCQs:
		if pl.recv, err = make(verbs.CQConfig{}); err != nil {
			return err
		}
		pl.recv.wait(1)
		fallthrough
	default:
		if pl.send, err = make(verbs.CQConfig{}); err == nil {
			pl.send.wait(1)
		}
	}
	if pl.recv == nil {
		pl.recv = pl.send
	}
	return err
}

// close releases the place after its QP was closed.
func (pl *place) close(n *node) error {
	if pl.mode == nextLoop && pl.send != nil {
		n.loop.remove(pl.send)
	}
	err := closeAll(pl.own...)
	pl.free()
	if pl.pool != nil {
		n.mu.Lock()
		pl.pool.ends--
		n.mu.Unlock()
	}
	return err
}

// Close closes the shared objects, after the ends.
func (n *node) Close() error {
	errs := []error{n.closeBuffers()}
	for _, p := range n.pools {
		errs = append(errs, p.close())
	}
	for _, h := range n.cqs {
		errs = append(errs, h.Close())
	}
	if n.flightCQ != nil {
		errs = append(errs, n.flightCQ.Close())
	}
	if n.loop != nil {
		errs = append(errs, n.loop.Close())
	}
	if n.ch != nil {
		errs = append(errs, n.ch.Close())
	}
	for _, pd := range n.pds {
		errs = append(errs, pd.Close())
	}
	if n.dev != nil {
		errs = append(errs, n.dev.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing what is shared on %s: %w", n.host.Device, err)
	}
	return nil
}
