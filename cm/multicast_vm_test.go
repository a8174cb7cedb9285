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
		t.Fatalf("got %v (%v), want %v", ev, ev.Err(), want)
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

// member returns an ID for datagrams that is bound to a host.
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
		t.Fatal("bound to an address, and no device")
	}
	return id
}

// TestMulticast: two members and one who only sends; who has left, and who only
// sends, gets nothing.
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
			t.Fatalf("the event is %+v", ev)
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
			t.Errorf("member %d got %q", i, got)
		}
		receive(t, qps[i], bufs[i])
	}

	if err := m.Leave(); err != nil {
		t.Fatalf("Leave: %v", err)
	}
	if err := m.Leave(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	sendTo(t, sender.QP(), to, out, "to the rest")
	completion(t, two.QP().RecvCQ())
	var wc [1]verbs.WC
	for _, qp := range []*verbs.QP{one.QP(), sender.QP()} {
		if n, err := qp.RecvCQ().Poll(wc[:]); n != 0 || err != nil {
			t.Errorf("QP %d got %d completions, %v", qp.Num(), n, err)
		}
	}
}

// TestMulticastBadInput: what cannot be joined, and what becomes of the ID.
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
		t.Errorf("an ID without a device: %v", err)
	}
	rc, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if err := rc.Bind(cm.AddrFrom(netip.AddrPortFrom(hosts[0].IPv4, 0))); err != nil {
		t.Fatalf("Bind: %v", err)
	}
	if _, err := rc.JoinMulticast(group, cm.FullMember); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an ID of connections: %v", err)
	}
	id := member(t, ch, hosts[0])
	if _, err := id.JoinMulticast(group, 77); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("flags that do not exist: %v", err)
	}
	if _, err := id.JoinMulticast(cm.Addr{}, cm.FullMember); err == nil {
		t.Error("no address")
	}
	m, err := id.JoinMulticast(group, cm.FullMember)
	if err != nil {
		t.Fatalf("id.JoinMulticast: %v", err)
	}
	expect(t, ch, cm.EventMulticastJoin)
	id.Close()
	if err := m.Leave(); err != nil {
		t.Errorf("after the ID was closed: %v", err)
	}
}

// TestMulticastErrorWhenTheQPCannotJoin: rxe attaches 56 QPs to a group. That the
// 57th fails is an event of that membership.
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
			t.Errorf("member %d: %v, %v", i+1, ev, err)
		}
		if id.State() != cm.StateBound {
			t.Errorf("the ID is %v", id.State())
		}
		if err := m.Leave(); err != nil {
			t.Errorf("Leave: %v", err)
		}
		// Where there is room again, it may be joined again.
		first.Close()
		if m, err = id.JoinMulticast(group, cm.FullMember); err != nil {
			t.Fatalf("id.JoinMulticast: %v", err)
		}
		if ev := expect(t, ch, cm.EventMulticastJoin); ev.Multicast != m {
			t.Errorf("got %v", ev)
		}
	}
}
