// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"errors"
	"fmt"

	"purerdma/verbs"
)

// offer is temporarily registered memory for the peer to fill.
type offer struct {
	addr  uint64
	rkey  uint32
	bytes []byte
	inv   bool // whether the peer invalidates the key
	mr    *verbs.MR
	mw    *verbs.MW // the window of the key, or nil
}

func (o *offer) close() error {
	var err error
	if o.mw != nil {
		err = o.mw.Close()
	}
	return errors.Join(err, o.mr.Close())
}

// closeWindows closes the open windows before the QP that has bound them, see
// docs/reference/driver-faults.md.
func (e *end) closeWindows() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, o := range e.offers {
		if o.mw != nil {
			errs = append(errs, o.mw.Close())
		}
	}
	return errors.Join(errs...)
}

// offer registers memory in a random way and announces it to the peer.
func (e *end) offer() bool {
	if len(e.offers) >= 2 || e.sent-e.acked >= window {
		return false
	}
	n := e.enough(1 + size(e.rng, slotLen-1))
	o, err := e.newOffer(n)
	if err != nil {
		e.fault("registering %d bytes: %w", n, err)
		return false
	}
	e.offers[o.addr] = o
	e.s.stats.offers.Add(1)
	tell := func() {
		h := header{kind: kindOffer, a: o.addr, b: uint64(o.rkey), c: uint64(n) << 1}
		if o.inv {
			h.c |= 1
		}
		e.later(func() bool { return e.say(h, 100, func() {}) })
	}
	if o.mw == nil {
		tell()
		return e.sayNow()
	}
	e.bind(func() {
		bind := o.mw.Bind(o.mr, 0, n, verbs.RemoteRead|verbs.RemoteWrite)
		o.rkey = o.mw.RKey()
		bind.Flags = verbs.SendSignaled
		e.issue(bind, tell)
	})
	return true
}

// later adds a message to send when there is room.
func (e *end) later(task func() bool) { e.tasks = append(e.tasks, task) }

// sayNow tries to send the last task's message.
func (e *end) sayNow() bool {
	last := len(e.tasks) - 1
	if !e.tasks[last]() {
		return false
	}
	e.tasks = e.tasks[:last]
	return true
}

func (e *end) newOffer(n int) (o *offer, err error) {
	const rights = verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite
	o = &offer{}
	c, pd := &e.node.caps, e.place.pd
	switch how := e.rng.IntN(5); {
	case how == 0: // memory of the Go heap
		o.mr, err = pd.RegMR(make([]byte, n), rights)
	case how == 1 && c.rereg: // registered with other rights and another PD first
		if o.mr, err = e.node.pds[e.rng.IntN(len(e.node.pds))].Alloc(n, verbs.LocalWrite); err == nil {
			access := verbs.Access(rights)
			err = o.mr.Reregister(verbs.MRChange{PD: pd, Access: &access})
		}
	case how <= 3 && c.windows:
		if o.mr, err = pd.Alloc(n, rights|verbs.MWBind); err == nil {
			typ := verbs.MWType1 + verbs.MWType(how&1)
			o.mw, err = pd.AllocMW(typ)
			o.inv = typ == verbs.MWType2 && e.rng.IntN(2) == 0
		}
	default:
		o.mr, err = pd.Alloc(n, rights)
		o.inv = c.readInv && e.rng.IntN(2) == 0 // only siw supports this
	}
	if err != nil {
		if o.mr != nil {
			err = errors.Join(err, o.mr.Close())
		}
		return nil, err
	}
	o.addr, o.rkey, o.bytes = o.mr.Addr(), o.mr.RKey(), o.mr.Bytes()
	return o, nil
}

// accept fills the memory of an offer, reads it back, and answers.
func (e *end) accept(h header) {
	n, inv := int(h.c>>1), h.c&1 != 0
	if n <= 0 || n > slotLen {
		e.fault("an offer of %d bytes", n)
		return
	}
	e.later(func() bool {
		if len(e.slotsOK) < 2 || !e.mayRead() {
			return false
		}
		from, to := e.slot(), e.slot()
		data := e.slotBytes(from, n)
		fill(e.rng, data)
		answer := header{kind: kindAnswer, a: h.a, b: uint64(checksumOf(data))}
		if inv {
			answer.c = h.b
		}
		rkey := uint32(h.b)
		e.issue(verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: h.a, RKey: rkey, SGList: e.pieces(from, n, 3)}, func() {})
		e.s.stats.writes.Add(1)
		e.s.stats.reads.Add(1)
		done := func() {
			e.same(fmt.Sprintf("read from an offer at %#x to slot %d, written from slot %d", h.a, to, from), e.slotBytes(to, n), data)
			e.giveBack(from)
			e.giveBack(to)
			e.later(func() bool { return e.say(answer, 100, func() {}) })
		}
		e.issue(verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: h.a, RKey: rkey, SGList: e.pieces(to, n, 1)}, done)
		return true
	})
}

// answered deregisters an offer's memory in a random way.
func (e *end) answered(h *header, wc verbs.WC) {
	o := e.offers[h.a]
	if o == nil {
		e.fault("an answer to no offer, at %#x", h.a)
		return
	}
	if sum := checksumOf(o.bytes); sum != uint32(h.b) {
		e.fault("an offer of %d bytes holds the checksum %#x, the peer has written %#x", len(o.bytes), sum, h.b)
	}
	if o.inv && e.node.caps.windows && (wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey != o.rkey) {
		e.fault("key %#x was to be invalidated: %+v", o.rkey, wc)
	}
	gone := func() {
		delete(e.offers, h.a)
		if err := o.close(); err != nil {
			e.fault("closing what was offered: %w", err)
		}
	}
	switch {
	case o.mw == nil || o.inv || e.rng.IntN(2) == 0:
		gone() // a bound window is closed
	case o.mw.Type() == verbs.MWType1:
		unbind := o.mw.Bind(o.mr, 0, 0, 0)
		unbind.Flags = verbs.SendSignaled
		e.later(func() bool { e.bind(func() { e.issue(unbind, gone) }); return true })
	default:
		e.later(func() bool {
			e.issue(verbs.SendWR{Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: o.rkey}, gone)
			return true
		})
	}
}
