// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"log/slog"
	"sync"
	"time"
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

// refusalLogInterval is the least time between two log records of refused requests.
const refusalLogInterval = time.Second

// refusals counts the connect requests that the library refuses by itself, and logs them.
type refusals struct {
	mu    sync.Mutex
	total uint64
	since uint64    // refused since the last record
	next  time.Time // when the next record may be written
}

// count returns how many requests were refused.
func (r *refusals) count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// note counts a refused request and logs it, unless another one was logged a moment ago.
// cause is the local failure, nil if a limit was reached.
func (r *refusals) note(log *slog.Logger, id *ID, why string, cause error) {
	now := time.Now()
	r.mu.Lock()
	r.total++
	r.since++
	since, due := r.since, !now.Before(r.next)
	if due {
		r.since, r.next = 0, now.Add(refusalLogInterval)
	}
	r.mu.Unlock()
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
	ch.refused.note(ch.host.Log, id, why, cause)
	_ = id.Reject([]byte(why))
	id.Close()
}
