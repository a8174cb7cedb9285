// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"

	"purerdma/cm"
)

// eventLog prints the events of the connection manager as the C program does with -d. It is a
// handler of verbs.Host.Log, which receives the events before the waiting goroutines do.
type eventLog struct {
	u      *printer
	server bool
}

func (eventLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle prints one event. It prints the ID's number where the C program prints an address in
// memory.
func (l eventLog) Handle(_ context.Context, r slog.Record) error {
	var id string
	peer := false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "id":
			id, _, _ = strings.Cut(strings.TrimPrefix(a.Value.String(), "cm_id "), " ")
		case "remote":
			remote, err := netip.ParseAddrPort(a.Value.String())
			peer = err == nil && !remote.Addr().IsUnspecified()
		}
		return true
	})
	whose := "parent"
	if l.server && peer { // the listener has no peer, but it may lose its device
		whose = "child"
	}
	text := "cma_event type " + r.Message + " cma_id " + id + " (" + whose + ")\n"
	switch r.Message {
	case cm.EventConnectRequest.String():
		text += "child cma " + id + "\n"
	case cm.EventConnectResponse.String(), cm.EventEstablished.String():
		text += strings.TrimPrefix(r.Message, "RDMA_CM_EVENT_") + "\n"
	}
	l.u.debugf("%s", text)
	return nil
}

func (l eventLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l eventLog) WithGroup(string) slog.Handler      { return l }
