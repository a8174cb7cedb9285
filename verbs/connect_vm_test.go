// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// connect connects two ends with Modify. On iWARP it uses the connection manager, because only
// the kernel can connect there.
func connect(t testing.TB, l, r *end) {
	t.Helper()
	if l.dev.Transport() == verbs.TransportIWARP {
		connectByCM(t, l, r)
		return
	}
	l.connectTo(t, r)
	r.connectTo(t, l)
}

func connectByCM(t testing.TB, l, r *end) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("connection manager: %v", err)
		}
	}
	var channels [2]*cm.EventChannel
	var ids [2]*cm.ID
	for i := range channels {
		ch, err := cm.NewEventChannel(nil)
		check(err)
		closer(t, ch)
		channels[i] = ch
		ids[i], err = ch.NewID(cm.IDConfig{})
		check(err)
	}
	next := func(ch *cm.EventChannel, want cm.EventType) *cm.Event {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ev, err := ch.Next(ctx)
		check(err)
		ev.Ack()
		if ev.Type != want {
			t.Fatalf("event = %v (%v), want %v", ev, ev.Err(), want)
		}
		return ev
	}
	listener, active := ids[0], ids[1]
	addr := func(e *end) cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(e.host.IPv4, 0)) }
	check(listener.Bind(addr(r)))
	check(listener.Listen(1))
	check(active.ResolveAddr(addr(l), listener.LocalAddr(), 2*time.Second))
	next(channels[1], cm.EventAddrResolved)
	check(active.ResolveRoute(2 * time.Second))
	next(channels[1], cm.EventRouteResolved)
	check(active.UseQP(l.qp))
	param := &cm.ConnParam{ResponderResources: 4, InitiatorDepth: 4}
	check(active.Connect(param))
	passive := next(channels[0], cm.EventConnectRequest).ID
	check(passive.UseQP(r.qp))
	check(passive.Accept(param))
	next(channels[0], cm.EventEstablished)
	next(channels[1], cm.EventEstablished)
	listener.Close()
	// From now on, events inform the QPs when the connection ends.
	for _, ch := range channels {
		go func() {
			for ev, err := range ch.Events(context.Background()) {
				if err != nil {
					return
				}
				ev.Ack()
			}
		}()
	}
}
