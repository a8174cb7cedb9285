// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"math"
	"slices"
	"sync"

	"purerdma/internal/streamconn"
)

// sendMemory divides the memory for outgoing data among the connections of a Shared on one device. It only
// counts bytes. The memory itself is of the pool, which has room for all of them.
//
// Each connection may always have one block that is not counted. It may take further memory while it
// has no more than remains free. So connections whose peers take no data leave memory to the others.
//
// A refused connection waits until it is granted the memory. A grant counts as taken memory. If
// the writer has stopped waiting, its grant returns with the last block of the connection, or at Close.
//
// Locks are taken in this order: link.mu, sendMemory.mu.
type sendMemory struct {
	mu      sync.Mutex     // guards the following fields
	free    int            // bytes. Negative if a single Buf of a program has more
	waiting []*memoryShare // in the order of their requests
	// least is not more than the smallest need of the waiting connections, so that most calls of serve
	// look at none of them.
	least int
}

// memoryShare is the part of a sendMemory that one connection has. Without a sendMemory nothing is counted.
type memoryShare struct {
	memory *sendMemory
	conn   *streamconn.Conn // is woken by a grant
	block  int              // bytes of the largest uncounted block

	first bool // the connection has its uncounted block. Guarded by link.mu

	asked   int  // bytes of the request that waits or was granted, or 0. Changed with link.mu and memory.mu held
	granted bool // the request was granted. Guarded by memory.mu
	taken   int  // counted bytes, with a grant. Guarded by memory.mu
}

// charge is the number of counted bytes of a block, or one of the following values.
type charge int

const (
	uncharged  charge = 0  // memory that is not of the pool
	guaranteed charge = -1 // the uncounted block of a connection
)

// take takes n bytes. It returns the charge to be released with the memory. If it returns false, the
// connection waits, and its writer is woken when take would succeed. The caller holds the lock of the link.
func (s *memoryShare) take(n int) (charge, bool) {
	if s.memory == nil {
		return uncharged, true
	}
	if !s.first && n <= s.block { // a request keeps its place in the queue
		s.first = true
		return guaranteed, true
	}
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.asked == n && s.granted {
		s.asked, s.granted = 0, false
		return charge(n), true
	}
	if s.asked == n && !s.idle() {
		return 0, false
	}
	m.cancel(s) // a request of another size
	if !s.idle() && max(s.taken, n) > m.free {
		s.asked = n
		m.waiting = append(m.waiting, s)
		m.least = min(m.least, s.need())
		return 0, false
	}
	m.free -= n
	s.taken += n
	return charge(n), true
}

// release returns memory. The caller holds the lock of the link.
func (s *memoryShare) release(c charge) {
	switch {
	case c == guaranteed:
		s.first = false
		if s.asked == 0 {
			return
		}
		c = 0
	case c == uncharged:
		return
	}
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += int(c)
	s.taken -= int(c)
	if s.idle() {
		m.cancel(s) // take succeeds without a grant
	}
	if s.asked > 0 && !s.granted {
		m.least = min(m.least, s.need())
	}
	m.serve()
}

// leave withdraws the request of the connection. The caller holds the lock of the link.
func (s *memoryShare) leave() {
	if s.asked == 0 {
		return
	}
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.cancel(s)
}

// idle reports whether the connection has no memory except a grant. It may then take any number of
// bytes, because a Buf of the program can be larger than all memory. The caller holds both locks.
func (s *memoryShare) idle() bool {
	return !s.first && (s.taken == 0 || s.granted && s.taken == s.asked)
}

// need returns the number of free bytes with which the request is granted. The caller holds memory.mu.
func (s *memoryShare) need() int { return max(s.taken, s.asked) }

// cancel withdraws a request or returns its grant. The caller holds the locks of m and of the link.
func (m *sendMemory) cancel(s *memoryShare) {
	if s.asked == 0 {
		return
	}
	if s.granted {
		m.free += s.asked
		s.taken -= s.asked
	} else if i := slices.Index(m.waiting, s); i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	s.asked, s.granted = 0, false
	m.serve()
}

// serve grants the requests that the free memory allows, in their order. The caller holds the lock.
func (m *sendMemory) serve() {
	if m.free < m.least {
		return
	}
	m.least = math.MaxInt
	m.waiting = slices.DeleteFunc(m.waiting, func(s *memoryShare) bool {
		if s.need() > m.free {
			m.least = min(m.least, s.need())
			return false
		}
		m.free -= s.asked
		s.taken += s.asked
		s.granted = true
		streamconn.WakeWriter(s.conn)
		return true
	})
}
