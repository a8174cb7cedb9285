// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"testing"

	"purerdma/verbs"
)

// TestNilContext checks that the panic names the nil context, even if a completion or an event
// is available.
func TestNilContext(t *testing.T) {
	rt := mlx5Route(t)
	l, r := rt.pair(t, verbs.QPCap{})
	l.send(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte{1}})
	l.ok(t, 1)
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	l.recv(t, verbs.RecvWR{}) // flushed, so that a completion is available
	events, err := l.dev.AsyncEvents()
	if err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	closer(t, events)
	var none context.Context
	for name, call := range map[string]func(){
		"CQ.Wait":          func() { l.cq.Wait(none, make([]verbs.WC, 1)) },
		"CompChannel.Next": func() { l.cq.Channel().Next(none) },
		"AsyncEvents.Next": func() { events.Next(none) },
		"Device.Events": func() {
			for range l.dev.Events(none) {
			}
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != "nil context" {
					t.Errorf("%s: recover() = %v, want \"nil context\"", name, r)
				}
			}()
			call()
		}()
	}
}
