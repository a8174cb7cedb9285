// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"testing"
)

// TestNilContext checks that a nil context panics with a clear text before the call has any
// effect.
func TestNilContext(t *testing.T) {
	conn, _ := fakeConn(t)
	defer conn.Close()
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	ep, _ := fakeEndpoint(t, StateRouteResolved)
	k.queue(id.kid, EventAddrError, 0) // must not be lost
	living := k.living()
	var none context.Context
	for name, call := range map[string]func(){
		"Dial":        func() { Dial(none, "tcp", "10.8.0.1:7") },
		"Resolve":     func() { Resolve(none, "udp", "10.8.0.1:7") },
		"Listen":      func() { Listen(none, "tcp", ":7") },
		"ResolveAddr": func() { new(Dialer).ResolveAddr(none, PortSpaceTCP, Addr{}) },
		"Accept":      func() { (&Listener{ch: ch, id: id}).Accept(none) },
		"Connect":     func() { (&Resolved{pendingConn: pendingConn{ep: ep}}).Connect(none, nil, nil) },
		"Next":        func() { ch.Next(none) },
		"Send":        func() { conn.Send(none) },
		"Probe":       func() { conn.Probe(none) },
		"WaitRecv":    func() { conn.WaitRecv(none) },
		"Wait":        func() { conn.Wait(none) },
		"Disconnect":  func() { conn.Disconnect(none) },
		"Destroy":     func() { id.Destroy(none) },
	} {
		func() {
			defer func() {
				if r := recover(); r != "nil context" {
					t.Errorf("%s with a nil context: panic %v, want \"nil context\"", name, r)
				}
			}()
			call()
		}()
	}
	if ev := mustNext(t, ch); ev.Type != EventAddrError {
		t.Errorf("Next() = %v, want the queued ADDR_ERROR", ev)
	}
	if k.living() != living || conn.ID().State() != StateEstablished {
		t.Errorf("%d IDs, want %d, connection in %q, want established", k.living(), living, conn.ID().State())
	}
}
