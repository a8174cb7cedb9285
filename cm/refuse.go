// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"log/slog"
)

// What a peer reads in the private data of a rejection that the library sends by itself.
const (
	refusedConns       = "too many connections"
	refusedConnsAddr   = "too many connections from this address"
	refusedPending     = "too many pending handshakes"
	refusedPendingAddr = "too many pending handshakes from this address"
	refusedLate        = "handshake timeout"
	refusedNoDevice    = "the device cannot be used"
	refusedNoChannel   = "the server cannot open a channel"
)

// noteRefusal counts a refused request and logs it, unless another one was logged a moment
// ago. cause is the local failure, nil if a limit was reached.
func (ch *EventChannel) noteRefusal(id *ID, why string, cause error) {
	since, due := ch.refused.Add()
	log := ch.host.Log
	if log == nil || !due {
		return
	}
	attrs := []slog.Attr{
		slog.String("reason", why),
		slog.String("local", id.LocalAddr().String()),
		slog.String("remote", id.RemoteAddr().String()),
		slog.Uint64("requests", since),
	}
	if cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	log.LogAttrs(context.Background(), slog.LevelWarn, "connect request refused", attrs...)
}

// refuse rejects a connect request with a reason that the peer can read, and closes it.
// A peer that has left is not told.
func (ch *EventChannel) refuse(id *ID, why string, cause error) {
	ch.noteRefusal(id, why, cause)
	_ = id.Reject([]byte(why))
	id.Close()
}
