// SPDX-License-Identifier: Apache-2.0

package cm

import (
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
	conns   int // pending ones included
	pending int
}

// limits bounds a tally; 0 is no bound.
type limits struct{ conns, pending int }

// admission counts the connections of a listener, all of them and those of each remote
// address, and decides on new ones.
type admission struct {
	all, each limits

	mu    sync.Mutex
	total tally
	from  map[Addr]*tally // by remote address, without the port
}

// newAdmission returns the limits that a ListenConfig asks for.
func newAdmission(lc *ListenConfig) *admission {
	conns, perAddr := defaultMaxConns, defaultMaxConnsPerAddr
	if files := mem.FileLimit(); files > 0 {
		// A connection takes two descriptors. The rest is the program's.
		conns = int(max(1, min(uint64(conns), files/3)))
		perAddr = int(max(1, min(uint64(perAddr), files/6)))
	}
	return &admission{
		all:  limits{limit(lc.MaxConns, conns), limit(lc.MaxPending, defaultMaxPending)},
		each: limits{limit(lc.MaxConnsPerAddr, perAddr), limit(lc.MaxPendingPerAddr, defaultMaxPendingPerAddr)},
		from: map[Addr]*tally{},
	}
}

// limit returns the limit of an option: 0 means the default, and less that there is none.
func limit(option, byDefault int) int {
	switch {
	case option < 0:
		return 0
	case option == 0:
		return byDefault
	}
	return option
}

// admit counts a connect request, or returns why it is over a limit.
func (a *admission) admit(remote Addr) (s *slot, why Refusal) {
	key := withoutPort(remote)
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.from[key]
	if t == nil {
		t = new(tally)
	}
	// The peer's own limits first: others have no part in them.
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

// withoutPort returns what the connections of one host have in common.
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
	s.settle()
}

// settle notes that the connection is not pending any more. The caller holds the lock.
func (s *slot) settle() {
	if s.pending {
		s.pending = false
		s.t.pending--
		s.a.total.pending--
	}
}

// release gives the place back. It may be called more than once.
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
	s.settle()
	s.a.total.conns--
	if s.t.conns--; s.t.conns == 0 {
		delete(s.a.from, s.key)
	}
}
