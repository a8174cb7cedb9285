// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"log/slog"
)

// logLevel returns LevelInfo for events that matter to an operator, and LevelDebug for the
// others, which matter for debugging.
func (t EventType) logLevel() slog.Level {
	switch t {
	case EventEstablished, EventDisconnected, EventRejected, EventConnectError, EventUnreachable,
		EventDeviceRemoval, EventMulticastError, EventAddrChange:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// log writes an event to the host's log, after its transition.
func (ch *EventChannel) log(ev *Event) {
	l, level := ch.host.Log, ev.Type.logLevel()
	if l == nil || !l.Enabled(context.Background(), level) {
		return
	}
	id := ev.ID
	attrs := []slog.Attr{
		slog.String("id", id.String()),
		slog.String("state", id.State().String()),
		slog.String("local", id.LocalAddr().String()),
		slog.String("remote", id.RemoteAddr().String()),
	}
	if dev := id.Device(); dev != nil {
		attrs = append(attrs, slog.String("device", dev.Name()))
	}
	if err := ev.Err(); err != nil {
		attrs = append(attrs, slog.Int("status", ev.Status), slog.String("error", err.Error()))
	}
	l.LogAttrs(context.Background(), level, ev.Type.String(), attrs...)
}
