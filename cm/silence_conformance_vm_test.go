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

// TestSlowSilentPeer checks that an unconfirmed acceptance and an unanswered look-up end with
// UNREACHABLE if no shorter context ends them before.
func TestSlowSilentPeer(t *testing.T) {
	longtest.Need(t)
	p := newRCPair(t)
	p.request(&cm.ConnParam{QPNum: 0x4711})
	lookup, err := p.client.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
	p.ok(err)
	p.route(lookup, rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr())
	p.hosts[0].Lose(t)
	start := time.Now()
	qp := p.qpOf(p.passive)
	p.ok(p.passive.Accept(nil))
	p.ok(lookup.Connect(nil))
	for _, side := range []struct {
		ch *cm.EventChannel
		id *cm.ID
	}{{p.client, lookup}, {p.server, p.passive}} {
		ev, err := side.ch.Next(within(t, 4*time.Minute))
		p.ok(err)
		ev.Ack()
		t.Logf("%v after %v", ev, time.Since(start).Round(time.Second))
		var ue *cm.UnreachableError
		if ev.Type != cm.EventUnreachable || ev.ID != side.id || ev.Status != -int(syscall.ETIMEDOUT) || !errors.As(ev.Err(), &ue) || !ue.Timeout() {
			t.Errorf("Next() = %v, %v, want UNREACHABLE with -ETIMEDOUT", ev, ev.Err())
		}
	}
	if qp.State() != verbs.QPErr || p.passive.State() != cm.StateFailed {
		t.Errorf("QP in %v, ID in %v, want ERR, failed", qp.State(), p.passive.State())
	}
}
