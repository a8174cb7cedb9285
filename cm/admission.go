// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"purerdma/internal/mem"
)

// The defaults of a ListenConfig.
const (
	defaultMaxConns          = 16384
	defaultMaxConnsPerAddr   = 4096
	defaultMaxPending        = 4096
	defaultMaxPendingPerAddr = 1024
	defaultHandshakeTimeout  = 30 * time.Second
)

// tally counts connections.
type tally struct {
	conns   int // including pending ones
	pending int
}

// limits bounds a tally. 0 means no bound.
type limits struct{ conns, pending int }

// admission counts the connections of a listener, in total and for each remote address, and
// decides on new ones.
type admission struct {
	all, each limits

	mu    sync.Mutex
	total tally
	from  map[Addr]*tally // by remote address, without the port
}

// newAdmission returns an admission with the limits of a ListenConfig.
func newAdmission(lc *ListenConfig) *admission {
	conns := defaultMaxConns
	if files := mem.FileLimit(); files > 0 {
		// A connection takes two descriptors. The program keeps the rest.
		conns = int(max(1, min(uint64(conns), files/3)))
	}
	all := limits{limit(lc.MaxConns, conns), limit(lc.MaxPending, defaultMaxPending)}
	return &admission{
		all: all,
		each: limits{
			limit(lc.MaxConnsPerAddr, share(defaultMaxConnsPerAddr, cmp.Or(all.conns, conns))),
			limit(lc.MaxPendingPerAddr, share(defaultMaxPendingPerAddr, all.pending)),
		},
		from: map[Addr]*tally{},
	}
}

// share returns the default limit of one address. It is at most half of the total, so that an address at
// its limit leaves room for others. A total of 0 means no limit. A total of 1 is the reason of its own
// refusals.
func share(byDefault, total int) int {
	if total <= 1 {
		return byDefault
	}
	return min(byDefault, total/2)
}

// limit returns the limit of an option. 0 means the default, and a negative value means no
// limit.
func limit(option, byDefault int) int {
	switch {
	case option < 0:
		return 0
	case option == 0:
		return byDefault
	}
	return option
}

// admit counts a connect request and returns its slot. If the request is over a limit, admit
// returns the reason instead.
func (a *admission) admit(remote Addr) (s *slot, why Refusal) {
	key := withoutPort(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.from[key]
	if t == nil {
		t = new(tally)
	}
	// Check the peer's own limits first, because other peers do not affect them.
	switch {
	case a.each.conns > 0 && t.conns >= a.each.conns:
		return nil, RefusedMaxConnsPerAddr
	case a.each.pending > 0 && t.pending >= a.each.pending:
		return nil, RefusedMaxPendingPerAddr
	case a.all.conns > 0 && a.total.conns >= a.all.conns:
		return nil, RefusedMaxConns
	case a.all.pending > 0 && a.total.pending >= a.all.pending:
		return nil, RefusedMaxPending
	}
	a.from[key] = t
	for _, t := range []*tally{t, &a.total} {
		t.conns++
		t.pending++
	}
	return &slot{a: a, key: key, t: t, pending: true}, ""
}

// withoutPort returns the part of an address that all connections of one host share.
func withoutPort(a Addr) Addr {
	if a.isIB() {
		return Addr{IB: IBAddr{GID: a.IB.GID}}
	}
	return AddrFrom(netip.AddrPortFrom(a.Addr().Unmap(), 0))
}

// slot counts one connection in the limits of its listener. A nil slot stands for
// a connection without a listener.
type slot struct {
	a       *admission
	key     Addr
	t       *tally
	pending bool
	gone    bool
}

// established ends the handshake.
func (s *slot) established() {
	if s == nil {
		return
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.endPending()
}

// endPending marks the connection as no longer pending. The caller holds the lock.
func (s *slot) endPending() {
	if s.pending {
		s.pending = false
		s.t.pending--
		s.a.total.pending--
	}
}

// release frees the slot. It may be called more than once.
func (s *slot) release() {
	if s == nil {
		return
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	s.endPending()
	s.a.total.conns--
	if s.t.conns--; s.t.conns == 0 {
		delete(s.a.from, s.key)
	}
}

// Refusal is the reason why a [Listener] has rejected a request by itself. The peer gets it as
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
// request may succeed later. A peer that uses no Listener of this package can send identical
// private data.
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

// noteRefusal counts a refused request. It also logs the request, unless it logged another one
// a moment ago. cause is the local failure, nil if the request was over a limit or too late.
func (ch *EventChannel) noteRefusal(id *ID, why Refusal, cause error) {
	since, due := ch.refused.Add()
	if why != RefusedHandshakeTimeout {
		ch.counters().accepts.refused.Add(1)
	}
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

// refuse rejects a connect request with a reason that the peer can read, and closes it. A peer
// that has left does not get the reason.
func (ch *EventChannel) refuse(id *ID, why Refusal, cause error) {
	ch.noteRefusal(id, why, cause)
	_ = id.Reject([]byte(why))
	id.Close()
}
