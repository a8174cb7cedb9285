// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// multicastQPN is the number of all QPs of a multicast group.
const multicastQPN = 0xffffff

// grhLen is the size of the header before a datagram.
const grhLen = ethernet.RoCEHeaderLen

// L3 types of headers, in completions.
const (
	l3GRH  = 0
	l3IPv6 = 1
	l3IPv4 = 2
)

var mcgCommands = map[uint16]command{
	prm.OpAttachMCG: {"ATTACH_TO_MCG", 32, 16, func(d *Device, in, _ []byte) error {
		q, err := d.findQP(uint32(prm.MCGIn.QPN.Get(in)))
		if err != nil {
			return err
		}
		gid := [16]byte(prm.MCGIn.GID.Of(in))
		if !q.datagrams() {
			return refuse(prm.StatusBadParam, "QP %#x takes no datagrams", q.n)
		}
		for _, o := range d.groups[gid] {
			if o == q {
				return nil
			}
		}
		switch members := len(d.groups[gid]); {
		case members == 0 && len(d.groups) == 1<<logMaxMCG:
			return refuse(prm.StatusNoResources, "there are %d multicast groups", len(d.groups))
		case members == maxQPMCG:
			return refuse(prm.StatusNoResources, "the group has %d QPs", members)
		}
		d.groups[gid] = append(d.groups[gid], q)
		q.users++
		return nil
	}},
	prm.OpDetachMCG: {"DETACH_FROM_MCG", 32, 16, func(d *Device, in, _ []byte) error {
		q, err := d.findQP(uint32(prm.MCGIn.QPN.Get(in)))
		if err != nil {
			return err
		}
		gid := [16]byte(prm.MCGIn.GID.Of(in))
		left := without(d.groups[gid], q)
		if len(left) == len(d.groups[gid]) {
			return refuse(prm.StatusBadParam, "QP %#x is not in the group", q.n)
		}
		q.users--
		if d.groups[gid] = left; len(left) == 0 {
			delete(d.groups, gid)
		}
		return nil
	}},
}

// datagram sends a datagram. A datagram without a receiver is lost.
func (q *qp) datagram(r *request) prm.Syndrome {
	const mtu = 4096
	if r.length > mtu {
		return prm.SyndromeLocalLength
	}
	src := &q.d.gids[prm.AV.SourceIndex.Get(r.av)]
	key := prm.AV.QKey.Get(r.av)
	if prm.AV.QKeyHigh.Is(r.av) {
		key = prm.QPC.QKey.Get(q.context[:])
	}
	m := &q.d.message
	*m = message{from: q, service: q.service, request: r, data: r.local, sgid: src.gid(), dgid: [16]byte(prm.AV.RGID.Of(r.av)), to: uint32(prm.AV.DestQPN.Get(r.av))}
	fate := q.d.fabric.fate(q.d, m)
	if fate.requestLost {
		return prm.SyndromeNone
	}
	kind := unicastFrames
	if m.to == multicastQPN {
		kind = multicastFrames
	}
	q.d.fw.port.frames.rdmaSent[kind].addPackets(1, m.length)
	var head [grhLen]byte
	l3 := header(&head, src, m)
	m.data = append(append(q.d.withHeader[:0], head[:]), r.local...)
	q.d.withHeader = m.data[:0]
	if fate.delay > 0 {
		later := m.copy()
		new(timer).start(q.d.fabric, fate.delay, func() { later.deliverDatagram(key, l3) })
		return prm.SyndromeNone
	}
	m.deliverDatagram(key, l3)
	return prm.SyndromeNone
}

// copy returns a datagram that stays when the device processes another request.
func (m *message) copy() *message {
	later, r := *m, *m.request
	r.av, r.segments, r.local = nil, nil, nil
	later.request, later.data = &r, [][]byte{bytes.Join(m.data, nil)}
	return &later
}

// deliverDatagram delivers a datagram to each of its receivers.
func (m *message) deliverDatagram(key, l3 uint64) {
	q := m.from
	if m.to == multicastQPN {
		for _, d := range q.d.fabric.devices {
			if len(d.groups[m.dgid]) > 0 && d.portUp() {
				d.fw.port.frames.rdmaReceived[multicastFrames].addPackets(1, m.length)
			}
			for _, p := range d.groups[m.dgid] {
				if p != q || !prm.QPC.BlockLoopback.Is(q.context[:]) {
					p.accept(m, key, l3)
				}
			}
		}
		return
	}
	for _, d := range q.d.fabric.devices {
		if !d.hasGID(m.dgid) {
			continue
		}
		if d.portUp() {
			d.fw.port.frames.rdmaReceived[unicastFrames].addPackets(1, m.length)
		}
		if m.to == 1 {
			for _, o := range d.queues.objects {
				if p, ok := o.(*qp); ok && p.service == prm.ServiceQP1 {
					p.accept(m, key, l3)
				}
			}
		} else if p, ok := d.queues.objects[m.to].(*qp); ok {
			p.accept(m, key, l3)
		}
	}
}

// accept receives a datagram if the QP can.
func (p *qp) accept(m *message, key uint64, l3 uint64) {
	why := ""
	switch {
	case !p.d.portUp():
		why = "has no link"
	case !p.datagrams():
		why = "has another service"
	case p.state < prm.QPRTR || p.state == prm.QPErr:
		why = "is in no state to receive"
	case prm.QPC.QKey.Get(p.context[:]) != key:
		why = "has another Q_Key"
	}
	if why != "" {
		p.d.note(p, "a datagram of QP %#x is dropped: it %s", m.from.n, why)
		return
	}
	t, _ := p.target(m)
	if _, ok := t.ready(); !ok {
		p.d.note(p, "a datagram of QP %#x is dropped: there is no receive", m.from.n)
		return
	}
	p.d.steps = 0
	t.datagram, t.l3 = true, l3
	t.receive(m)
}

// sourceQPN returns the source number in the QP's datagrams.
func (q *qp) sourceQPN() uint64 {
	if q.service == prm.ServiceQP1 {
		return 1
	}
	if n := prm.QPC.DETHSourceQPN.Get(q.context[:]); n != 0 {
		return n
	}
	return uint64(q.n)
}

// header writes the header before a datagram and returns its type. It is an IPv4 header in the
// last bytes, or an IPv6 header or GRH, which have equal formats.
func header(b *[grhLen]byte, src *address, m *message) (l3 uint64) {
	version := prm.RoCEAddress.Vers.Get(src[:])
	v4 := version == prm.RoCEv2 && prm.RoCEAddress.L3Type.Get(src[:]) == prm.L3IPv4
	class, hops, flow := byte(prm.AV.TClass.Get(m.av)), byte(prm.AV.HopLimit.Get(m.av)), uint32(prm.AV.FlowLabel.Get(m.av))
	*b = ethernet.RoCEHeader(v4, m.sgid, m.dgid, class, hops, flow, m.length)
	switch {
	case v4:
		return l3IPv4
	case version == prm.RoCEv2:
		return l3IPv6
	}
	const ibHeader, udpHeader = 0x1b, 8
	be := binary.BigEndian
	b[6] = ibHeader
	be.PutUint16(b[4:], be.Uint16(b[4:])-udpHeader)
	return l3GRH
}
