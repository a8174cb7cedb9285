// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"slices"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// JoinFlags selects the role in which an ID joins a multicast group (enum rdma_cm_join_mc_attr
// of rdma_join_multicast_ex(3)).
type JoinFlags uint16

const (
	// FullMember receives the messages that are sent to the group.
	FullMember JoinFlags = abi.RDMA_MC_JOIN_FLAG_FULLMEMBER
	// SendOnlyFullMember sends to the group and receives nothing. The QP is not attached.
	SendOnlyFullMember JoinFlags = abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
)

// Multicast is the membership of an ID in a multicast group. It ends with Leave, or with the
// ID.
type Multicast struct {
	// Addr is the group. Flags is the role in which the ID joined it.
	Addr   Addr
	Flags  JoinFlags
	id     *ID
	uid    uint64
	joined chan struct{} // closed when the command that joins has returned
	// kid is the kernel's number of the membership, separate from the numbers of IDs. It is
	// set before joined is closed.
	kid uint32

	// Guarded by id.attaching.
	gid      verbs.GID
	lid      uint16
	attached *verbs.QP

	acks acks // guarded by id.mu
}

// JoinMulticast requests membership in a group in the given role (rdma_join_multicast(3),
// rdma_join_multicast_ex(3)). The ID must be for datagrams and have a device. It has one if it
// is bound to a device or has resolved an address. The outcome is EventMulticastJoin, which
// carries the address to send to, or EventMulticastError. The ID's QP, if it has one by then,
// is attached to the group.
func (id *ID) JoinMulticast(group Addr, flags JoinFlags) (*Multicast, error) {
	if !group.IsValid() {
		return nil, id.opError(opJoin, errNoAddr)
	}
	if flags > SendOnlyFullMember {
		return nil, id.opError(opJoin, &ArgumentError{Name: "the role", Value: int(flags), Max: int(SendOnlyFullMember), Reason: "there are FullMember and SendOnlyFullMember"})
	}
	m := &Multicast{Addr: group, Flags: flags, id: id, uid: lastUID.Add(1), joined: make(chan struct{})}
	defer close(m.joined)
	// The event may be fetched before the command returns.
	id.mu.Lock()
	id.groups = append(id.groups, m)
	id.mu.Unlock()
	err := id.run(opJoin, nil, func(f *ucma.File, kid uint32) (err error) {
		sa, err := id.sockaddr(group)
		if err != nil {
			return err
		}
		if err := id.Channel().addAs(m.uid, id); err != nil {
			return err
		}
		m.kid, err = f.JoinMcast(kid, m.uid, sa, uint16(flags))
		return err
	})
	if err != nil {
		m.forget()
		err.(*OpError).Remote = group
		return nil, err
	}
	return m, nil
}

// Leave leaves the group (rdma_leave_multicast(3)). Unfetched events of the membership are
// dropped. Leave may be called more than once.
func (m *Multicast) Leave() error {
	// A goroutine that has the event may get here before the command has returned the number.
	<-m.joined
	if !m.forget() {
		return nil
	}
	detachErr := m.detach()
	err := m.id.run(opLeave, nil, func(f *ucma.File, _ uint32) error {
		_, err := f.LeaveMcast(m.kid)
		return err
	})
	if errors.Is(err, net.ErrClosed) {
		return nil // the ID was closed, which ends the membership
	}
	return errors.Join(detachErr, err)
}

// WaitAcked waits, as rdma_leave_multicast(3) does, until every delivered event of the
// membership has been acknowledged.
func (m *Multicast) WaitAcked(ctx context.Context) error {
	return m.id.waitAcked(ctx, opLeave, &m.acks)
}

// forget removes the membership from its ID and the channels. It returns false if the
// membership was removed before.
func (m *Multicast) forget() bool {
	id := m.id
	id.mu.Lock()
	i := slices.Index(id.groups, m)
	if i >= 0 {
		id.groups = slices.Delete(id.groups, i, i+1)
	}
	channels := append([]*EventChannel{id.ch}, id.left...)
	id.mu.Unlock()
	for _, ch := range channels {
		ch.remove(m.uid)
	}
	return i >= 0
}

// detach undoes attach, unless another membership of the ID in the same group needs the
// attachment. The kernel attaches a QP to a group only once.
func (m *Multicast) detach() error {
	id := m.id
	id.attaching.Lock()
	defer id.attaching.Unlock()
	qp := m.attached
	m.attached = nil
	if qp == nil {
		return nil
	}
	same := func(o *Multicast) bool { return o.attached == qp && o.gid == m.gid && o.lid == m.lid }
	id.mu.Lock()
	needed := slices.ContainsFunc(id.groups, same)
	id.mu.Unlock()
	if needed {
		return nil
	}
	// A QP that has been closed is in no group.
	if err := qp.DetachMulticast(m.gid, m.lid); err != nil && !errors.Is(err, net.ErrClosed) {
		return id.opError(opLeave, err)
	}
	return nil
}

// attach attaches the ID's QP to the group at the address of an event, unless the membership
// has ended since.
func (m *Multicast) attach(to *verbs.AHAttr) error {
	id := m.id
	id.attaching.Lock()
	defer id.attaching.Unlock()
	id.mu.Lock()
	qp, stands := id.qp, slices.Contains(id.groups, m)
	id.mu.Unlock()
	if qp == nil || !stands || m.attached != nil || m.Flags == SendOnlyFullMember {
		return nil
	}
	if err := qp.AttachMulticast(to.GRH.DGID, to.DLID); err != nil {
		return err
	}
	m.gid, m.lid, m.attached = to.GRH.DGID, to.DLID, qp
	return nil
}

// membership finds a membership by its number. It returns nil for the number of the ID itself.
func (id *ID) membership(uid uint64) *Multicast {
	if uid == id.uid {
		return nil
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	for _, m := range id.groups {
		if m.uid == uid {
			return m
		}
	}
	return nil
}

// applyMulticast is apply for an event of a membership. It does not change the state of the
// ID.
func (id *ID) applyMulticast(m *Multicast, raw *ucma.Event) *Event {
	ud := raw.UD()
	ev := &Event{Type: EventType(raw.Type), ID: id, Status: int(raw.Status), UD: udParamFromKernel(&ud), Multicast: m}
	if ev.Type == EventMulticastJoin {
		if err := m.attach(&ev.UD.AHAttr); err != nil {
			ev.Type, ev.Status, ev.cause = EventMulticastError, -1, err
		}
	}
	id.deliver(ev)
	return ev
}
