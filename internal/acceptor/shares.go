// SPDX-License-Identifier: Apache-2.0

package acceptor

import (
	"net/netip"
	"sync"

	"purerdma/cm"
)

// shares holds the tokens of each remote address that has requests.
type shares struct {
	size int // tokens of one address

	mu sync.Mutex
	of map[netip.Addr]*share
}

// share holds the tokens of one remote address.
type share struct {
	tokens   chan struct{}
	requests int // requests that are answered or wait
}

func newShares(size int) shares { return shares{size: size, of: map[netip.Addr]*share{}} }

// enter counts a request and returns the tokens of its address.
func (s *shares) enter(host netip.Addr) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of[host]
	if h == nil {
		h = &share{tokens: make(chan struct{}, s.size)}
		s.of[host] = h
	}
	h.requests++
	return h.tokens
}

// leave ends the use of the tokens that enter has returned.
func (s *shares) leave(host netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of[host]
	if h.requests--; h.requests == 0 {
		delete(s.of, host)
	}
}

// hostOf returns the part of an address that all connections of one host share. For an InfiniBand address it
// is the GID.
func hostOf(addr cm.Addr) netip.Addr {
	if addr.IB != (cm.IBAddr{}) {
		return netip.AddrFrom16(addr.IB.GID)
	}
	return addr.Addr().Unmap()
}
