// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// multicastQPN is the number of all QPs of a multicast group.
const multicastQPN = 0xffffff

// attach answers ATTACH_MCAST.
func (c *context) attach(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsAttachMcast](cmd)
	q := c.qps[in.QPHandle]
	if q == nil || q.Type != abi.IB_UVERBS_QPT_UD || !isMulticast(in.GID) {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		if err := h.Attach(q, in.GID); err != nil {
			return err
		}
	}
	if q.groups == nil {
		q.groups = make(map[[16]byte]bool)
	}
	q.groups[in.GID] = true
	return nil
}

// detach answers DETACH_MCAST.
func (c *context) detach(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsDetachMcast](cmd)
	q := c.qps[in.QPHandle]
	if q == nil || !q.groups[in.GID] {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		if err := h.Detach(q, in.GID); err != nil {
			return err
		}
	}
	delete(q.groups, in.GID)
	return nil
}

// isMulticast says whether a GID is that of a group: an IPv6 address, or a mapped
// one of IPv4.
func isMulticast(gid [16]byte) bool {
	mapped := [12]byte{10: 0xff, 11: 0xff}
	return gid[0] == 0xff || [12]byte(gid[:12]) == mapped && gid[12]>>4 == 0xe
}

// datagram sends a datagram. One that nobody takes is lost.
func (q *QP) datagram(r *request) {
	be := binary.BigEndian
	num, gid := be.Uint32(r.av[8:])&0xffffff, [16]byte(r.av[32:48])
	for _, p := range q.c.k.qps {
		if p.Type != abi.IB_UVERBS_QPT_UD || p.state < stateRTR || p.state == stateErr || p.attr.QKey != be.Uint32(r.av) {
			continue
		}
		// What a QP sends to its group does not come back to it.
		if num == multicastQPN && p.groups[gid] && p != q || num == p.Num && p.c.hasGID(gid) {
			q.deliver(p, r)
		}
	}
}

// deliver gives a datagram to one QP.
func (q *QP) deliver(p *QP, r *request) {
	if _, _, ok := p.nextReceive(p.SRQ); !ok {
		return
	}
	// The header: an IPv4 header at its end.
	be := binary.BigEndian
	grh := q.grh[:]
	clear(grh)
	grh[20] = 0x45
	be.PutUint16(grh[22:], uint16(20+8+12+r.length+4))
	grh[28], grh[29] = r.av[27], 17
	copy(grh[32:36], q.c.GIDs[0].GID[12:])
	copy(grh[36:40], r.av[44:48])
	e := CQE{Opcode: CQERespSend, GRH: 1, SL: 2, SrcQPN: q.Num}
	if r.opcode == opSendImm {
		e.Opcode, e.Imm = CQERespImm, r.imm
	}
	with := *r
	with.local, with.length = append(append(q.withHeader[:0], grh), r.local...), r.length+len(grh)
	p.receive(q, &with, &e)
}

// hasGID says whether an address is the device's.
func (c *context) hasGID(gid [16]byte) bool {
	for i := range c.GIDs {
		if c.GIDs[i].GID == gid {
			return true
		}
	}
	return false
}
