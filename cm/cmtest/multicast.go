// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"syscall"

	"purerdma/abi"
)

// group is a membership in a multicast group. Memberships and IDs have separate numbers.
type group struct {
	num      uint32
	id       *id
	reported uint32
}

// notSupp is ENOTSUPP, an errno that only the kernel uses. Linux returns it here to the
// program.
const notSupp = syscall.Errno(524)

// join implements JOIN_MCAST.
func (k *Kernel) join(id *id, c *abi.UcmJoinMcast) error {
	addr := addrPort(&c.Addr).Addr()
	switch {
	case !id.datagram() || id.dev == nil || !id.in(bound, addrResolved) || !addr.IsMulticast() || c.JoinFlags >= abi.RDMA_MC_JOIN_FLAG_RESERVED:
		return syscall.EINVAL
	case !addr.Is4():
		return notSupp
	}
	g := &group{num: lowest(k.groups), id: id}
	k.groups[g.num] = g
	answer(c.Response, &abi.UcmCreateIDResp{ID: g.num})
	ud := abi.UcmUDParam{QPNum: 0xffffff, QKey: datagramQKey, AHAttr: id.ahAttr()}
	ud.AHAttr.GRH.DGID = addr.As16()
	ev := event{resp: abi.UcmEventResp{UID: c.UID, ID: g.num, Event: abi.RDMA_CM_EVENT_MULTICAST_JOIN}, id: id, group: g}
	copy(ev.resp.Param[:], abi.Bytes(&ud))
	k.queue(ev)
	return nil
}

// leave implements LEAVE_MCAST. It drops the membership's unfetched events.
func (k *Kernel) leave(f *file, c *abi.UcmDestroyID) error {
	g := k.groups[c.ID]
	switch {
	case g == nil:
		return syscall.ENOENT
	case g.id.file != f:
		return syscall.EINVAL
	case g.id.state == removed:
		return syscall.ENXIO
	}
	delete(k.groups, g.num)
	f.drop(func(ev event) bool { return ev.group == g })
	answer(c.Response, &abi.UcmDestroyIDResp{EventsReported: g.reported})
	return nil
}
