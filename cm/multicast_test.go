// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
)

// TestJoinInNoRole checks that JoinMulticast with unknown flags returns an error with the
// value, and sends no command.
func TestJoinInNoRole(t *testing.T) {
	ch, k := newFakeChannel(t)
	k.fail[abi.RDMA_USER_CM_CMD_JOIN_MCAST] = syscall.EIO
	var pe *ArgumentError
	_, err := newFakeID(t, ch).JoinMulticast(mustAddr("239.1.2.3:0"), SendOnlyFullMember+1)
	if !errors.As(err, &pe) || pe.Value != 2 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("JoinMulticast() = %v, want an ArgumentError with value 2", err)
	}
}

// TestMulticastEvents checks that the events of a membership name it, and do not change the
// state of its ID. Events without a membership are dropped.
func TestMulticastEvents(t *testing.T) {
	ch, k := newFakeChannel(t)
	id, err := ch.NewID(IDConfig{PortSpace: PortSpaceUDP})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	group := mustAddr("239.1.2.3:0")
	one, err := id.JoinMulticast(group, FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	two, err := id.JoinMulticast(group, FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	send := func(uid uint64, typ EventType, status int32) {
		k.events <- abi.UcmEventResp{UID: uid, ID: 9, Event: uint32(typ), Status: uint32(status)}
	}
	send(two.uid, EventMulticastJoin, 0)
	if ev := mustNext(t, ch); ev.Multicast != two || ev.ID != id || ev.Type != EventMulticastJoin || ev.Err() != nil {
		t.Errorf("Next() = %v of %v, want MULTICAST_JOIN of %v", ev, ev.Multicast, two)
	}
	send(one.uid, EventMulticastError, -int32(syscall.ENETUNREACH))
	ev := mustNext(t, ch)
	var oe *OpError
	if err := ev.Err(); ev.Multicast != one || !errors.As(err, &oe) || !errors.Is(err, syscall.ENETUNREACH) || oe.Remote != group {
		t.Errorf("Next() = %v, %v, want ENETUNREACH of the first membership", ev, err)
	}
	send(one.uid, EventMulticastError, 0) // the kernel sends such events
	if err := mustNext(t, ch).Err(); err == nil {
		t.Error("Err() of MULTICAST_ERROR = nil, want an error")
	}
	if id.State() != StateIdle {
		t.Errorf("State() = %v, want idle", id.State())
	}

	dropped := ch.Dropped()
	send(id.uid, EventMulticastJoin, 0)  // not the UID of a membership
	send(one.uid, EventDisconnected, 0)  // not an event of a membership
	send(one.uid, EventDeviceRemoval, 0) // not an event of a membership
	if err := one.Leave(); err != nil {
		t.Fatalf("one.Leave: %v", err)
	}
	send(one.uid, EventMulticastJoin, 0) // the membership has ended
	send(two.uid, EventMulticastJoin, 0)
	if ev := mustNext(t, ch); ev.Multicast != two {
		t.Errorf("Next() = %v, want an event of the second membership", ev)
	}
	if n := ch.Dropped() - dropped; n != 4 {
		t.Errorf("Dropped() rose by %d, want 4", n)
	}
}

// TestMulticastMigrates checks that a membership migrates with its ID.
func TestMulticastMigrates(t *testing.T) {
	ch, k := newFakeChannel(t)
	to := newEventChannel(newUcma(k), ch.host)
	t.Cleanup(func() { to.Close() })
	id, err := ch.NewID(IDConfig{PortSpace: PortSpaceUDP})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	m, err := id.JoinMulticast(mustAddr("239.1.2.3:0"), FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	if err := id.Migrate(to); err != nil {
		t.Fatalf("id.Migrate: %v", err)
	}
	k.events <- abi.UcmEventResp{UID: m.uid, Event: abi.RDMA_CM_EVENT_MULTICAST_JOIN}
	if ev := mustNext(t, to); ev.Multicast != m {
		t.Errorf("Next() = %v, want an event of the membership", ev)
	}
}
