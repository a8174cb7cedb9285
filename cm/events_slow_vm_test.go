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

// What follows takes the minutes that the kernel's connection manager takes to
// give up.

// TestSlowEventUnreachable: all that the peer sends is lost.
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
		t.Errorf("got %v, the ID is %v", ev, client.State())
	}
	t.Logf("after %v", time.Since(start).Round(time.Second))
}

// TestSlowEventDisconnected: the other side does not answer the disconnect.
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
		t.Errorf("got %v: %v", ev, ev.Err())
	}
	t.Logf("after %v", time.Since(start).Round(time.Second))
}
