// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purerdma/verbs"
)

// modelMember is a membership that the user has.
type modelMember struct {
	m        *Multicast
	g        *modelGroup
	of       *modelHandle
	held     int
	left     bool
	attached bool // its ID's QP
}

// join joins one of a few groups.
func (r *modelRun) join(h *modelHandle) error {
	group := AddrFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{239, 1, 2, byte(r.rnd.IntN(3))}), 0))
	m, err := h.id.JoinMulticast(group, JoinFlags(r.rnd.IntN(4)/3))
	if err != nil {
		return err
	}
	mm := &modelMember{m: m, g: r.k.groups[m.kid], of: h}
	if h.m.gone || mm.g == nil || mm.g.uid != m.uid {
		return fmt.Errorf("membership %d is not the kernel's", m.kid)
	}
	h.groups = append(h.groups, mm)
	r.members[mm.g] = mm
	return nil
}

// leave leaves a group, perhaps once more, or waits for what is held of one.
func (r *modelRun) leave() error {
	var all []*modelMember
	for _, h := range append(slices.Clone(r.handles), r.closed...) {
		all = append(all, h.groups...)
	}
	if len(all) == 0 {
		return nil
	}
	m := all[r.rnd.IntN(len(all))]
	if err := r.leaveMember(m); err != nil {
		return err
	}
	if r.rnd.IntN(2) == 0 {
		return nil
	}
	return r.wait("WaitAcked", m.m.WaitAcked, &m.held, r.rnd.IntN(2) == 0)
}

func (r *modelRun) leaveMember(m *modelMember) error {
	before, left := r.k.commands, m.left || m.of.gone
	err := m.m.Leave()
	r.note("Leave %v of %v: %v", m.m.Addr, m.of.id, err)
	var removed *verbs.DeviceRemovedError
	switch {
	case left && (err != nil || r.k.commands != before):
		return fmt.Errorf("a membership is left once more: %v", err)
	case !left && m.of.m.state == modelRemoved && errors.As(err, &removed):
	case err != nil:
		return err
	}
	if m.attached && !left {
		r.seen["a QP whose ID leaves a group"]++
	}
	m.left, m.attached = true, false
	return nil
}

// gotMulticast is got for an event of a membership, which leaves the state of its ID
// alone.
func (r *modelRun) gotMulticast(h *modelHandle, raw modelEvent, ev *Event) error {
	m := r.members[raw.group]
	typ := EventType(raw.resp.Event)
	switch {
	case m == nil || ev.Multicast != m.m || ev.ID != h.id:
		return fmt.Errorf("an event of a membership of %v came as %v, of %v", h.id, ev, ev.Multicast)
	case m.left:
		return fmt.Errorf("%v of a membership that is left", ev)
	case typ == EventMulticastJoin && ev.Type == EventMulticastError && h.m.state == modelRemoved:
		r.seen["a QP that cannot be attached"]++
	case ev.Type != typ || ev.Status != int(int32(raw.resp.Status)) || (ev.Err() != nil) != (typ == EventMulticastError):
		return fmt.Errorf("%v, status %d, came as %v", typ, int32(raw.resp.Status), ev)
	case typ == EventMulticastJoin && ev.UD.AHAttr.GRH.DGID[15] != m.g.addr:
		return fmt.Errorf("%v has another group's address", ev)
	case typ == EventMulticastJoin && h.qp && m.m.Flags == FullMember:
		m.attached = true
	}
	r.seen[fmt.Sprintf("%v, status %v", ev.Type, ev.Status)]++
	r.hold(ev, h, m)
	return nil
}

// joined returns how many groups the QPs should be attached to: each once, whatever the
// number of memberships.
func (r *modelRun) joined() int {
	type group struct {
		h    *modelHandle
		addr byte
	}
	in := map[group]bool{}
	for _, h := range r.handles {
		for _, m := range h.groups {
			if m.attached && h.m.state != modelRemoved {
				in[group{h, m.g.addr}] = true
			}
		}
	}
	return len(in)
}

// attached returns how many groups they are attached to, on the devices that there are.
func (r *modelRun) attached() (n int) {
	r.qps.mu.Lock()
	defer r.qps.mu.Unlock()
	for a := range r.qps.attached {
		if !r.k.unplug[a.dev] {
			n++
		}
	}
	return n
}
