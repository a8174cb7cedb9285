// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "purerdma/test/ethernet"

// maxDatagram is the maximum size of a datagram in bytes.
const maxDatagram = 4096

// sendDatagram sends a datagram. A datagram without a receiver is lost.
func (q *qp) sendDatagram(r *request) *failure {
	to, handle := le.Uint32(r.wqe[16:])&psnMask, le.Uint32(r.wqe[20:])&0xf_ffff
	a := q.d.ahs[handle]
	switch {
	case a == nil || a.pd != q.pd && q.kind != typeGSI:
		return local(statusLocalQPOp, reasonAddress, "address handle %#x", handle)
	case r.length > maxDatagram:
		return local(statusLocalLength, reasonFormat, "a datagram of %d bytes", r.length)
	}
	source := q.d.gids[a.sgid]
	if source == nil || !q.d.sends() {
		return nil
	}
	key := le.Uint32(r.wqe[12:])
	if key>>31 != 0 {
		key = q.qkey
	}
	m := &datagram{
		header:  ethernet.RoCEHeader(a.network == networkIPv4, source.gid, a.dgid, a.trafficClass, a.hopLimit, a.flowLabel, r.length),
		request: r, key: key, from: q, source: source, network: a.network,
	}
	for _, d := range q.d.fabric.devices {
		if p := d.qps[to]; p != nil && !d.down && d.hasGID(a.dgid) {
			q.d.carry(d, 1, r.length)
			p.acceptDatagram(m)
		}
	}
	return nil
}

// datagram is a message of UD.
type datagram struct {
	*request
	header  [ethernet.RoCEHeaderLen]byte
	key     uint32
	from    *qp
	source  *gid
	network uint8
}

// acceptDatagram receives a datagram if the QP can.
func (p *qp) acceptDatagram(m *datagram) {
	why := ""
	switch {
	case p.kind == typeRC:
		why = "has another service"
	case p.state < stateRTR || p.state == stateError:
		why = "is in no state to receive"
	case p.qkey != m.key:
		why = "has another Q_Key"
	case p.receives() == 0:
		why = "has no receive"
	}
	if why != "" {
		p.d.trace("%s: a datagram of QP %#x is dropped: it %s", p.name(), m.from.n, why)
		return
	}
	var e cqe
	le.PutUint16(e[:], uint16(len(m.header)+int(m.length)))
	le.PutUint64(e[8:], p.handle)
	copy(e[16:], m.source.mac[:])
	le.PutUint16(e[22:], uint16(m.from.n))
	le.PutUint32(e[28:], m.from.n>>16<<24)
	flags := uint16(m.network) << 4
	if m.opcode == opSendImm {
		flags |= 0x2
		le.PutUint32(e[4:], m.imm)
	}
	status, err := p.takeReceive(&e, append([][]byte{m.header[:]}, m.data...))
	p.completeReceive(&e, completeDatagram, status, flags, m.solicited)
	if err != nil {
		p.d.trace("%s: %s", p.name(), err.text)
		p.fail(0, err.reason)
	}
}
