// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestEventChannel connects two IDs on one channel with the calls of librdmacm. One of them
// listens.
func TestEventChannel(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		t.Fatalf("cm.NewEventChannel: %v", err)
	}
	defer ch.Close()
	newID := func() *cm.ID {
		id, err := ch.NewID(cm.IDConfig{})
		if err != nil {
			t.Fatalf("NewID: %v", err)
		}
		return id
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
	}
	addr := func(s string) cm.Addr {
		a, err := cm.ParseAddr(s)
		check(err)
		return a
	}
	l, c := newID(), newID()
	check(l.Bind(addr(at(hosts[0].IPv4, 0))))
	check(l.Listen(3))
	check(c.ResolveAddr(addr(at(hosts[1].IPv4, 0)), l.LocalAddr(), 2*time.Second))
	var seen []string
	established, disconnected := 0, 0
	for ev, err := range ch.Events(within(t, 20*time.Second)) {
		check(err)
		side := "active "
		if ev.ID != c {
			side = "passive "
		}
		seen = append(seen, side+strings.TrimPrefix(ev.Type.String(), "RDMA_CM_EVENT_"))
		switch ev.Type {
		case cm.EventAddrResolved:
			check(c.ResolveRoute(2 * time.Second))
		case cm.EventRouteResolved:
			check(c.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}))
			check(c.Connect(nil))
		case cm.EventConnectRequest:
			if ev.Listener != l {
				t.Errorf("Listener = %v, want %v", ev.Listener, l)
			}
			check(ev.ID.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}))
			check(ev.ID.Accept(nil))
		case cm.EventEstablished:
			if ev.ID.QP().State() != verbs.QPRTS {
				t.Errorf("%s: QP state after ESTABLISHED = %v, want RTS", side, ev.ID.QP().State())
			}
			if established++; established == 2 {
				check(c.Disconnect())
			}
		case cm.EventDisconnected:
			if ev.ID.QP().State() != verbs.QPErr {
				t.Errorf("%s: QP state after DISCONNECTED = %v, want ERR", side, ev.ID.QP().State())
			}
			if ev.ID != c {
				check(ev.ID.Disconnect())
			}
		}
		ev.Ack()
		if ev.Type == cm.EventDisconnected {
			if disconnected++; disconnected == 2 {
				break
			}
		}
	}
	want := "active ADDR_RESOLVED,active ROUTE_RESOLVED,passive CONNECT_REQUEST,active ESTABLISHED,passive ESTABLISHED,passive DISCONNECTED,active DISCONNECTED"
	got := strings.Join(seen, ",")
	// The order of the two ESTABLISHED events is undefined.
	got = strings.Replace(got, "passive ESTABLISHED,active ESTABLISHED", "active ESTABLISHED,passive ESTABLISHED", 1)
	if vmtest.IWARP() { // on iWARP neither side waits for the other's answer
		got = strings.Replace(got, "active DISCONNECTED,passive DISCONNECTED", "passive DISCONNECTED,active DISCONNECTED", 1)
	}
	if got != want {
		t.Errorf("events =\n%s\nwant\n%s", got, want)
	}
	check(c.Destroy(within(t, 10*time.Second)))
	check(l.Destroy(within(t, 10*time.Second)))
}

// TestSelfMovedQP connects like rping -q. The ID has no QP and gets CONNECT_RESPONSE, and the
// program moves the QP itself.
func TestSelfMovedQP(t *testing.T) {
	ln, d := ends(t)
	go echo(ln)
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	dev := r.Device()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("AllocPD: %v", err)
	}
	defer pd.Close()
	r.Close()

	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		t.Fatalf("cm.NewEventChannel: %v", err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	defer id.Close()
	next := func(want cm.EventType) {
		t.Helper()
		ev, err := ch.Next(within(t, 5*time.Second))
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		defer ev.Ack()
		if ev.Type != want {
			t.Fatalf("Next() = %v, want %v", ev, want)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
	}
	check(id.ResolveAddr(d.LocalAddr, ln.Addr(), 2*time.Second))
	next(cm.EventAddrResolved)
	check(id.ResolveRoute(2 * time.Second))
	next(cm.EventRouteResolved)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC})
	check(err)
	defer qp.Close()
	check(id.Connect(&cm.ConnParam{QPNum: qp.Num(), ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}))
	next(cm.EventConnectResponse)
	if id.State() != cm.StateResponded {
		t.Errorf("State() = %q, want responded", id.State())
	}
	for _, state := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		attr, mask, err := id.InitQPAttr(state)
		check(err)
		check(qp.Modify(&attr, mask))
	}
	check(id.Establish())
	check(id.Disconnect())
	next(cm.EventDisconnected)
}
