// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
)

// Refusal is a reason for which a [Listener] rejects a request by itself. The peer gets it as
// the private data of the rejection: see [RefusalOf].
type Refusal string

// The reasons of a Listener. The first four are limits of its ListenConfig.
const (
	RefusedMaxConns          Refusal = "too many connections"
	RefusedMaxConnsPerAddr   Refusal = "too many connections from this address"
	RefusedMaxPending        Refusal = "too many pending handshakes"
	RefusedMaxPendingPerAddr Refusal = "too many pending handshakes from this address"
	RefusedHandshakeTimeout  Refusal = "handshake timeout"
	RefusedNoDevice          Refusal = "the device cannot be used"
	RefusedNoChannel         Refusal = "the server cannot open a channel"
)

// RefusalOf returns the Refusal of a rejected request, or "" if err is another error. The
// request may succeed later. Nothing keeps a peer that uses no Listener of this package from
// sending the same private data.
func RefusalOf(err error) Refusal {
	var data []byte
	if rejected, ok := errors.AsType[*RejectError](err); ok {
		data = rejected.PrivateData
	} else if unreachable, ok := errors.AsType[*UnreachableError](err); ok {
		data = unreachable.PrivateData
	}
	switch r := Refusal(bytes.TrimRight(data, "\x00")); r {
	case RefusedMaxConns, RefusedMaxConnsPerAddr, RefusedMaxPending, RefusedMaxPendingPerAddr,
		RefusedHandshakeTimeout, RefusedNoDevice, RefusedNoChannel:
		return r
	}
	return ""
}

// noteRefusal counts a refused request and logs it, unless another one was logged a moment
// ago. cause is the local failure, nil if a limit was reached.
func (ch *EventChannel) noteRefusal(id *ID, why Refusal, cause error) {
	since, due := ch.refused.Add()
	log := ch.host.Log
	if log == nil || !due {
		return
	}
	attrs := []slog.Attr{
		slog.String("reason", string(why)),
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
func (ch *EventChannel) refuse(id *ID, why Refusal, cause error) {
	ch.noteRefusal(id, why, cause)
	_ = id.Reject([]byte(why))
	id.Close()
}
