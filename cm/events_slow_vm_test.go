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
)

// The tests of this file take minutes, because the kernel's connection manager repeats its
// messages for that time.

// TestSlowEventUnreachable loses every message of the peer.
func TestSlowEventUnreachable(t *testing.T) {
	longtest.Need(t)
	r := newRig(t)
	client := r.resolvedTo(r.listener.LocalAddr(), func(id *cm.ID) { r.ok(id.SetAckTimeout(10 * time.Microsecond)) })
	r.withQP(client)
	r.hosts[0].Lose(t)
	r.ok(client.Connect(nil))
	start := time.Now()
	ev, err := r.client.Next(within(t, 4*time.Minute))
	r.ok(err)
	if ev.Type != cm.EventUnreachable || ev.Status != -int(syscall.ETIMEDOUT) || client.State() != cm.StateFailed {
		t.Errorf("Next() = %v with the ID in %v, want UNREACHABLE with -ETIMEDOUT, failed", ev, client.State())
	}
	t.Logf("UNREACHABLE after %v", time.Since(start).Round(time.Second))
}

// TestSlowEventDisconnected disconnects from a peer that does not answer.
func TestSlowEventDisconnected(t *testing.T) {
	longtest.Need(t)
	r := newRig(t)
	_, client := r.connected()
	r.hosts[0].Lose(t)
	r.ok(client.Disconnect())
	start := time.Now()
	ev, err := r.client.Next(within(t, 4*time.Minute))
	r.ok(err)
	var de *cm.DisconnectedError
	if ev.Type != cm.EventDisconnected || ev.Status != -int(syscall.ETIMEDOUT) || !errors.As(ev.Err(), &de) {
		t.Errorf("Next() = %v, %v, want DISCONNECTED with -ETIMEDOUT", ev, ev.Err())
	}
	t.Logf("DISCONNECTED after %v", time.Since(start).Round(time.Second))
}
