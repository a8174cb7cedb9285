// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"syscall"

	"purerdma/abi"
)

// modelGroup is a membership in modelKernel. Memberships and IDs have separate numbers, which
// overlap.
type modelGroup struct {
	num  uint32
	uid  uint64
	id   *modelID
	addr byte // the last byte of the group's address
	left bool
}

// join implements JOIN_MCAST. It may fail, and the membership may end later.
func (k *modelKernel) join(id *modelID, cmd *abi.UcmJoinMcast, num *uint32) {
	addr := addrFromKernel(&cmd.Addr).Addr().As4()
	g := &modelGroup{num: lowest(k.groups), uid: cmd.UID, id: id, addr: addr[3]}
	k.groups[g.num] = g
	*num = g.num
	k.later(func() {
		switch k.rnd.IntN(8) {
		case 0:
			k.tellGroup(g, EventMulticastError, -int(syscall.ENETUNREACH))
		case 1:
			k.tellGroup(g, EventMulticastError, 0) // as Linux does
		default:
			k.tellGroup(g, EventMulticastJoin, 0)
			k.later(func() {
				if k.rnd.IntN(4) == 0 {
					k.tellGroup(g, EventMulticastError, -int(syscall.ENETRESET))
				}
			})
		}
	})
}

// tellGroup queues an event of a membership, with its UID and its number.
func (k *modelKernel) tellGroup(g *modelGroup, typ EventType, status int) {
	if g.id.gone || g.id.state == modelRemoved || g.left {
		return
	}
	k.queueGroup(g, typ, status)
}

func (k *modelKernel) queueGroup(g *modelGroup, typ EventType, status int) {
	ev := joinEvent(g.uid)
	ev.ID, ev.Event, ev.Status = g.num, uint32(typ), uint32(status)
	ud := ev.UD()
	ud.AHAttr.GRH.DGID[15] = g.addr
	copy(ev.Param[:], abi.Bytes(&ud))
	g.id.file.queue(modelEvent{resp: ev, move: modelMove{g.id, g.id.state, g.id.turn}, group: g})
}

// leave implements LEAVE_MCAST, which drops the unfetched events. In some cases this kernel
// queues another event. Linux does not.
func (k *modelKernel) leave(f *modelFile, num uint32) error {
	g := k.groups[num]
	switch {
	case g == nil:
		return syscall.ENOENT
	case g.id.file != f:
		return syscall.EINVAL
	case g.id.state == modelRemoved:
		return syscall.ENXIO
	}
	delete(k.groups, num)
	g.left = true
	f.drop(func(ev modelEvent) bool { return ev.group == g })
	if k.rnd.IntN(4) == 0 {
		k.queueGroup(g, EventMulticastJoin, 0)
	}
	return nil
}
