// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"cmp"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

var group = cm.AddrFrom(netip.MustParseAddrPort("239.8.8.8:0"))

// expect waits for an event of a type.
func expect(t *testing.T, ch *cm.EventChannel, want cm.EventType) *cm.Event {
	t.Helper()
	ev, err := ch.Next(within(t, 20*time.Second))
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	if ev.Type != want {
		t.Fatalf("Next() = %v (%v), want %v", ev, ev.Err(), want)
	}
	return ev
}

func channel(t *testing.T) *cm.EventChannel {
	t.Helper()
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		t.Fatalf("cm.NewEventChannel: %v", err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}

// member returns a datagram ID that is bound to a host.
func member(t *testing.T, ch *cm.EventChannel, h vmtest.Host) *cm.ID {
	t.Helper()
	id, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	t.Cleanup(func() { id.Close() })
	if err := id.Bind(cm.AddrFrom(netip.AddrPortFrom(h.IPv4, 0))); err != nil {
		t.Fatalf("id.Bind: %v", err)
	}
	if id.Device() == nil {
		t.Fatal("Device() = nil after Bind, want a device")
	}
	return id
}

// TestMulticast joins a group with two full members and one member that only sends. A member
// that has left and a member that only sends receive nothing.
func TestMulticast(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch := channel(t)
	join := func(h vmtest.Host, flags cm.JoinFlags) (*cm.ID, *cm.Multicast, cm.UDParam) {
		id := member(t, ch, h)
		if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
			t.Fatalf("id.CreateQP: %v", err)
		}
		m, err := id.JoinMulticast(group, flags)
		if err != nil {
			t.Fatalf("id.JoinMulticast: %v", err)
		}
		ev := expect(t, ch, cm.EventMulticastJoin)
		defer ev.Ack()
		if ev.Multicast != m || ev.ID != id || ev.UD.QPN != 0xFFFFFF || ev.UD.QKey == 0 || !ev.UD.AHAttr.Global {
			t.Fatalf("MULTICAST_JOIN = %+v, want %v and the group's parameters", ev, m)
		}
		return id, m, ev.UD
	}
	one, m, _ := join(hosts[0], cm.FullMember)
	two, _, _ := join(hosts[0], cm.FullMember)
	sender, _, to := join(hosts[1], cm.SendOnlyFullMember)
	qps := []*verbs.QP{one.QP(), two.QP(), sender.QP()}
	bufs := make([]*verbs.MR, len(qps))
	for i, qp := range qps {
		bufs[i] = alloc(t, qp.PD(), 4096)
		receive(t, qp, bufs[i])
	}
	out := alloc(t, sender.QP().PD(), 4096)
	sendTo(t, sender.QP(), to, out, "to all")
	for i := range 2 {
		wc := completion(t, qps[i].RecvCQ())
		if got := string(bufs[i].Bytes()[grhLen:wc.ByteLen]); got != "to all" {
			t.Errorf("member %d received %q, want \"to all\"", i, got)
		}
		receive(t, qps[i], bufs[i])
	}

	if err := m.Leave(); err != nil {
		t.Fatalf("Leave: %v", err)
	}
	if err := m.Leave(); err != nil {
		t.Errorf("second Leave() = %v, want nil", err)
	}
	sendTo(t, sender.QP(), to, out, "to the rest")
	completion(t, two.QP().RecvCQ())
	var wc [1]verbs.WC
	for _, qp := range []*verbs.QP{one.QP(), sender.QP()} {
		if n, err := qp.RecvCQ().Poll(wc[:]); n != 0 || err != nil {
			t.Errorf("Poll of QP %d = %d, %v, want 0, nil", qp.Num(), n, err)
		}
	}
}

// TestMulticastBadInput checks which calls of JoinMulticast fail, and Leave after the Close of
// the ID.
func TestMulticastBadInput(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch := channel(t)
	idle, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	var se *cm.StateError
	if _, err := idle.JoinMulticast(group, cm.FullMember); !errors.As(err, &se) || se.State != cm.StateIdle {
		t.Errorf("JoinMulticast without a device = %v, want a StateError", err)
	}
	rc, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if err := rc.Bind(cm.AddrFrom(netip.AddrPortFrom(hosts[0].IPv4, 0))); err != nil {
		t.Fatalf("Bind: %v", err)
	}
	if _, err := rc.JoinMulticast(group, cm.FullMember); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("JoinMulticast of an ID of connections = %v, want EINVAL", err)
	}
	id := member(t, ch, hosts[0])
	if _, err := id.JoinMulticast(group, 77); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("JoinMulticast with unknown flags = %v, want EINVAL", err)
	}
	if _, err := id.JoinMulticast(cm.Addr{}, cm.FullMember); err == nil {
		t.Error("JoinMulticast without an address = nil, want an error")
	}
	m, err := id.JoinMulticast(group, cm.FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	expect(t, ch, cm.EventMulticastJoin)
	id.Close()
	if err := m.Leave(); err != nil {
		t.Errorf("Leave after the Close of the ID = %v, want nil", err)
	}
}

// TestMulticastErrorWhenTheQPCannotJoin attaches 57 QPs to a group. rxe attaches only 56. The
// failure of the last one is an event of its membership.
func TestMulticastErrorWhenTheQPCannotJoin(t *testing.T) {
	const most = 56 // rxe's max_mcast_qp_attach
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch := channel(t)
	var first *cm.ID
	for i := range most + 1 {
		id := member(t, ch, hosts[0])
		if err := id.CreateQP(nil, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 1, RecvWR: 1}}); err != nil {
			t.Fatalf("id.CreateQP: %v", err)
		}
		m, err := id.JoinMulticast(group, cm.FullMember)
		if err != nil {
			t.Fatalf("id.JoinMulticast: %v", err)
		}
		if i < most {
			first = cmp.Or(first, id)
			expect(t, ch, cm.EventMulticastJoin)
			continue
		}
		ev := expect(t, ch, cm.EventMulticastError)
		var oe *cm.OpError
		if err := ev.Err(); ev.Multicast != m || !errors.As(err, &oe) || oe.Remote != group || errors.Unwrap(oe.Err) == nil {
			t.Errorf("member %d: Next() = %v, %v, want an error of %v", i+1, ev, err, group)
		}
		if id.State() != cm.StateBound {
			t.Errorf("State() = %v, want bound", id.State())
		}
		if err := m.Leave(); err != nil {
			t.Errorf("Leave: %v", err)
		}
		// After another member has left, the QP can join.
		first.Close()
		if m, err = id.JoinMulticast(group, cm.FullMember); err != nil {
			t.Fatalf("id.JoinMulticast: %v", err)
		}
		if ev := expect(t, ch, cm.EventMulticastJoin); ev.Multicast != m {
			t.Errorf("Next() = %v, want an event of the membership", ev)
		}
	}
}
