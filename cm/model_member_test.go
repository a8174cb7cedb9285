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

// modelMember is the user's view of a membership.
type modelMember struct {
	m        *Multicast
	g        *modelGroup
	of       *modelHandle
	held     int
	left     bool
	attached bool // whether the QP of the ID is attached
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
		return fmt.Errorf("membership %d is unknown to the kernel", m.kid)
	}
	h.groups = append(h.groups, mm)
	r.members[mm.g] = mm
	return nil
}

// leave leaves a group, in some cases twice. It may also wait until the events of the
// membership are acknowledged.
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
		return fmt.Errorf("second Leave() = %v, want nil and no command", err)
	case !left && m.of.m.state == modelRemoved && errors.As(err, &removed):
	case err != nil:
		return err
	}
	if m.attached && !left {
		r.seen["QP whose ID leaves a group"]++
	}
	m.left, m.attached = true, false
	return nil
}

// gotMulticast is got for an event of a membership. Such an event does not change the state of
// its ID.
func (r *modelRun) gotMulticast(h *modelHandle, raw modelEvent, ev *Event) error {
	m := r.members[raw.group]
	typ := EventType(raw.resp.Event)
	switch {
	case m == nil || ev.Multicast != m.m || ev.ID != h.id:
		return fmt.Errorf("event of a membership of %v was delivered as %v, of %v", h.id, ev, ev.Multicast)
	case m.left:
		return fmt.Errorf("Next() = %v of an ended membership", ev)
	case typ == EventMulticastJoin && ev.Type == EventMulticastError && h.m.state == modelRemoved:
		r.seen["QP that cannot be attached"]++
	case ev.Type != typ || ev.Status != int(int32(raw.resp.Status)) || (ev.Err() != nil) != (typ == EventMulticastError):
		return fmt.Errorf("%v, status %d, was delivered as %v", typ, int32(raw.resp.Status), ev)
	case typ == EventMulticastJoin && ev.UD.AHAttr.GRH.DGID[15] != m.g.addr:
		return fmt.Errorf("%v has the address of another group", ev)
	case typ == EventMulticastJoin && h.qp && m.m.Flags == FullMember:
		m.attached = true
	}
	r.seen[fmt.Sprintf("%v, status %v", ev.Type, ev.Status)]++
	r.hold(ev, h, m)
	return nil
}

// joined returns the expected number of groups that the QPs are attached to. A QP is attached
// to a group once, for any number of memberships.
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

// attached returns the number of groups that the QPs on present devices are attached to.
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
