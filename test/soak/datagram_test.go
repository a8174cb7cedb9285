// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"purerdma/oob"
	"purerdma/verbs"
)

// unreliable is one side of a UC or UD lane. Its messages may be lost, but not changed,
// duplicated or reordered.
type unreliable struct {
	n    *node
	hub  *hub
	qp   *verbs.QP
	mr   *verbs.MR // slots of receives, then one to send from, then the region of the peer's writes
	path oob.Path
	ah   *verbs.AH
	head int // number of bytes before a message

	got  atomic.Int64
	sent chan verbs.WC
	last uint64
	lane uint32
}

const (
	rawWindow = 6
	rawSend   = rawWindow * slotLen
	rawRegion = rawSend + slotLen
	rawLen    = rawRegion + slotLen
)

// raw repeatedly creates and uses connections without a connection manager.
func raw(from, to *node, number uint32, typ verbs.QPType) {
	s := from.s
	for gen := uint32(1); s.ctx.Err() == nil && s.failed.Err() == nil; gen++ {
		if err := rawOnce(from, to, number, gen, typ); err != nil {
			s.fault("lane %d.%d, %v: %w", number, gen, typ, err)
		}
	}
}

func rawOnce(from, to *node, number, gen uint32, typ verbs.QPType) (err error) {
	rng := from.s.rand(number, gen)
	var sides [2]*unreliable
	for i, n := range []*node{from, to} {
		u, err := newUnreliable(n, number, typ, rng.IntN(2) == 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, u.close()) }()
		sides[i] = u
	}
	var addr [2]oob.Address
	for i, u := range sides {
		if addr[i], err = oob.Local(u.qp, &u.path); err != nil {
			return err
		}
	}
	for i, u := range sides {
		if err := u.path.Connect(u.qp, addr[i], addr[1-i]); err != nil {
			return err
		}
		if typ == verbs.UD {
			if u.ah, err = u.qp.PD().CreateAH(u.path.AH(addr[1-i])); err != nil {
				return err
			}
		}
	}
	from.s.stats.connections.Add(1)
	total := 50 + rng.IntN(200)
	lost, err := sides[0].talk(sides[1], addr[1].QPN, total, gen, rng)
	from.s.stats.datagrams.Add(int64(total))
	from.s.stats.lost.Add(int64(lost))
	if err == nil && lost > total/2 {
		err = fmt.Errorf("%d of %d messages were lost", lost, total)
	}
	return err
}

func newUnreliable(n *node, lane uint32, typ verbs.QPType, poll bool) (*unreliable, error) {
	u := &unreliable{n: n, lane: lane, sent: make(chan verbs.WC, 64)}
	if err := u.open(typ, poll); err != nil {
		return nil, errors.Join(err, u.close())
	}
	return u, nil
}

func (u *unreliable) open(typ verbs.QPType, poll bool) error {
	n := u.n
	gid, err := n.dev.GIDFor(1, n.host.IPv4)
	if err != nil {
		return err
	}
	u.path = oob.Path{SGIDIndex: gid.Index, Access: verbs.RemoteWrite}
	if u.hub, err = newHub(n.s, n.dev, verbs.CQConfig{NoEvents: poll}); err != nil {
		return err
	}
	if typ == verbs.UD {
		u.head = verbs.GRHLen
	}
	pd := n.pds[0]
	if u.qp, err = pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: u.hub.cq, RecvCQ: u.hub.cq, Cap: verbs.QPCap{Inline: headerLen}}); err != nil {
		return err
	}
	if u.mr, err = pd.Alloc(rawLen, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return err
	}
	if err := u.path.Init(u.qp); err != nil {
		return err
	}
	for i := range uint64(rawWindow) {
		if err := u.post(i); err != nil {
			return err
		}
	}
	u.hub.wg.Go(func() { u.run(poll) })
	return nil
}

func (u *unreliable) post(slot uint64) error {
	_, err := u.qp.PostRecv([]verbs.RecvWR{{ID: slot, SGList: []verbs.SGE{u.mr.Slice(int(slot)*slotLen, slotLen)}}})
	return err
}

func (u *unreliable) close() error {
	var errs []error
	if u.ah != nil {
		errs = append(errs, u.ah.Close())
	}
	if u.hub != nil { // the hub's waiter uses the memory
		u.hub.cancel()
		u.hub.wg.Wait()
	}
	if u.qp != nil {
		errs = append(errs, u.qp.Close())
	}
	if u.hub != nil {
		errs = append(errs, u.hub.Close())
	}
	if u.mr != nil {
		errs = append(errs, u.mr.Close())
	}
	return errors.Join(errs...)
}

const sentBit = 1 << 40 // marks the IDs of sends

func (u *unreliable) run(poll bool) {
	wcs := make([]verbs.WC, 4)
	for u.hub.ctx.Err() == nil {
		var n int
		var err error
		if poll {
			if n, err = u.hub.cq.Poll(wcs); n == 0 {
				time.Sleep(time.Millisecond)
			}
		} else {
			n, err = u.hub.cq.Wait(u.hub.ctx, wcs)
		}
		if err != nil && u.hub.ctx.Err() == nil {
			u.n.s.fault("lane %d, %v: %w", u.lane, u.qp.Type(), err)
			return
		}
		for _, wc := range wcs[:n] {
			if wc.ID&sentBit != 0 {
				u.sent <- wc
			} else if err := u.arrived(wc); err != nil {
				u.n.s.fault("lane %d, %v: %w", u.lane, u.qp.Type(), err)
			}
		}
	}
}

func (u *unreliable) arrived(wc verbs.WC) error {
	if err := wc.Err(); err != nil {
		return err
	}
	b := u.mr.Bytes()[int(wc.ID)*slotLen:][u.head:max(u.head, int(wc.ByteLen))]
	if wc.Opcode == verbs.WCRecvWriteImm {
		b = u.mr.Bytes()[rawRegion:][:wc.ByteLen]
	}
	h, sum, err := parse(b)
	switch {
	case err != nil:
		return err
	case h.lane != u.lane:
		return fmt.Errorf("message %d of lane %d", h.seq, h.lane)
	case h.seq <= u.last:
		return fmt.Errorf("message %d came after %d", h.seq, u.last)
	case wc.Flags&verbs.WCWithImm != 0 && wc.ImmData != sum:
		return fmt.Errorf("message %d came with %#x, not with its checksum %#x", h.seq, wc.ImmData, sum)
	}
	u.last = h.seq
	u.got.Add(1)
	u.n.s.stats.bytes.Add(int64(len(b)))
	return u.post(wc.ID)
}

// talk sends messages, each after the previous one has arrived or is considered lost. It
// returns the number of lost messages.
func (u *unreliable) talk(to *unreliable, qpn uint32, total int, gen uint32, rng *rand.Rand) (lost int, err error) {
	for seq := range total {
		if u.n.s.failed.Err() != nil {
			return 0, nil
		}
		most := 1024 - headerLen // maximum payload of a datagram
		if u.qp.Type() == verbs.UC {
			most = slotLen - headerLen
		}
		n := size(rng, most)
		b := u.mr.Bytes()[rawSend:][:headerLen+n]
		fill(rng, b[headerLen:])
		h := header{kind: kindData, lane: u.lane, gen: gen, seq: uint64(seq + 1), length: n}
		sum := h.put(b)
		wr := verbs.SendWR{ID: sentBit | uint64(seq), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{u.mr.Slice(rawSend, len(b))}}
		switch how := rng.IntN(4); {
		case how == 0:
			wr.Opcode, wr.ImmData = verbs.OpSendImm, sum
		case how == 1 && n == 0:
			wr.SGList, wr.InlineData = nil, b
		case how == 2 && u.qp.Type() == verbs.UC:
			wr.Opcode, wr.ImmData = verbs.OpWriteImm, sum
			wr.RemoteAddr, wr.RKey = to.mr.Addr()+rawRegion, to.mr.RKey()
		}
		if u.ah != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = u.ah, qpn, u.path.RemoteQKey()
		}
		before := to.got.Load()
		if _, err := u.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			return 0, err
		}
		select {
		case wc := <-u.sent:
			if wc.Err() != nil || wc.ID != wr.ID {
				return 0, fmt.Errorf("%+v", wc)
			}
		case <-time.After(u.n.s.patience):
			return 0, fmt.Errorf("message %d has not completed", seq+1)
		}
		for deadline := time.Now().Add(3 * time.Second); to.got.Load() == before; time.Sleep(200 * time.Microsecond) {
			if time.Now().After(deadline) {
				lost++
				break
			}
		}
	}
	return lost, nil
}
