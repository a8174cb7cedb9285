// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/longtest"
	"purerdma/verbs"
)

// TestSlowSilence loses every message of the server's host, and waits until the kernel's connection
// manager abandons its exchanges. That takes up to two minutes, so all cases wait at the same time: an unanswered
// connect request, an unanswered disconnect, an unconfirmed acceptance and an unanswered look-up.
func TestSlowSilence(t *testing.T) {
	longtest.Need(t)
	refused := newRig(t)
	unanswered := refused.resolvedTo(refused.listener.LocalAddr(), func(id *cm.ID) { refused.ok(id.SetAckTimeout(10 * time.Microsecond)) })
	refused.withQP(unanswered)
	// The other rigs share the check for leaks, which counts the objects of all of them.
	connected := rigOn(t, refused.hosts[0], refused.hosts[1], cm.IDConfig{})
	_, disconnecting := connected.connected()
	p := &rcPair{rig: rigOn(t, refused.hosts[0], refused.hosts[1], cm.IDConfig{})}
	p.active = p.resolved()
	p.request(&cm.ConnParam{QPNum: 0x4711})
	lookup, err := p.client.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	p.ok(err)
	p.route(lookup, rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr())
	accepted := p.qpOf(p.passive)

	p.hosts[0].Lose(t)
	start := time.Now()
	refused.ok(unanswered.Connect(nil))
	p.ok(p.passive.Accept(nil))
	p.ok(lookup.Connect(nil))
	connected.ok(disconnecting.Disconnect())

	for _, c := range []struct {
		name string
		ch   *cm.EventChannel
		id   *cm.ID
		want cm.EventType
	}{
		{"connect request", refused.client, unanswered, cm.EventUnreachable},
		{"look-up", p.client, lookup, cm.EventUnreachable},
		{"acceptance", p.server, p.passive, cm.EventUnreachable},
		{"disconnect", connected.client, disconnecting, cm.EventDisconnected},
	} {
		ev, err := c.ch.Next(within(t, 4*time.Minute))
		if err != nil {
			t.Fatalf("%s: Next() = %v, want %v", c.name, err, c.want)
		}
		ev.Ack()
		t.Logf("%s: %v after %v", c.name, ev, time.Since(start).Round(time.Second))
		if ev.Type != c.want || ev.ID != c.id || ev.Status != -int(syscall.ETIMEDOUT) {
			t.Errorf("%s: Next() = %v, want %v of %v with -ETIMEDOUT", c.name, ev, c.want, c.id)
		}
		var unreachable *cm.UnreachableError
		var disconnected *cm.DisconnectedError
		switch {
		case c.want == cm.EventDisconnected && !errors.As(ev.Err(), &disconnected):
			t.Errorf("%s: Err() = %v, want a DisconnectedError", c.name, ev.Err())
		case c.want == cm.EventUnreachable && (!errors.As(ev.Err(), &unreachable) || !unreachable.Timeout()):
			t.Errorf("%s: Err() = %v, want an UnreachableError with Timeout", c.name, ev.Err())
		}
	}
	if unanswered.State() != cm.StateFailed {
		t.Errorf("state after an unanswered connect request = %v, want failed", unanswered.State())
	}
	if accepted.State() != verbs.QPErr || p.passive.State() != cm.StateFailed {
		t.Errorf("QP in %v, ID in %v after an unconfirmed acceptance, want ERR, failed", accepted.State(), p.passive.State())
	}
}
