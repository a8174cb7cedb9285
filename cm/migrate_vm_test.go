// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
)

// TestMigrateWakesOnTheKernel checks that a goroutine that waits on the new channel gets the
// ID's earlier events. The kernel does not wake it for them.
func TestMigrateWakesOnTheKernel(t *testing.T) {
	r := newRig(t)
	id, to := r.newID(r.client), channel(t)
	got := make(chan *cm.Event, 1)
	ctx := within(t, 20*time.Second)
	go func() {
		defer close(got)
		ev, err := to.Next(ctx)
		if err != nil {
			t.Errorf("to.Next: %v", err)
			return
		}
		ev.Ack()
		got <- ev
	}()
	r.ok(id.ResolveAddr(cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0)), r.listener.LocalAddr(), 2*time.Second))
	time.Sleep(200 * time.Millisecond) // until the event has come, unfetched, and the goroutine waits
	r.ok(id.Migrate(to))
	if ev := <-got; ev == nil || ev.ID != id || ev.Type != cm.EventAddrResolved {
		t.Errorf("Next() = %v, want ADDR_RESOLVED of the ID", ev)
	}
}
