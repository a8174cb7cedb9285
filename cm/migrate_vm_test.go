// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
)

// TestMigrateWakesOnTheKernel: who waits on the channel that an ID comes to gets
// the events that came before it, though the kernel wakes nobody for them.
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
	time.Sleep(200 * time.Millisecond) // for the event, unfetched, and for the goroutine to wait
	r.ok(id.Migrate(to))
	if ev := <-got; ev == nil || ev.ID != id || ev.Type != cm.EventAddrResolved {
		t.Errorf("got %v", ev)
	}
}
