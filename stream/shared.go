// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"sync"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// SharedConfig configures a Shared. The zero SharedConfig is the default.
type SharedConfig struct {
	// Slot is the size in bytes of the longest frame, as in Options. 0 means 16 KiB.
	Slot int
	// Depth is the number of receives on each device. All connections share them. An idle connection
	// takes 3 of them, and a quarter is kept for new connections. If fewer than 3 are free, a new
	// connection waits up to 3 seconds for receives that others return. If none come, a Listener
	// refuses the peer, and DialContext returns an error that wraps syscall.ENOBUFS. 0 means 1024. Slot
	// times Depth bytes are registered when the first connection on a device is made.
	Depth int
	// SendBytes bounds the memory on each device for data that is being sent, in bytes. 0 means 64 MiB.
	// A Write waits while other connections use all of it. A connection whose peer takes no data keeps up
	// to Options.SendBuffer bytes, so many of them can use up the memory. Close frees it, and a write
	// deadline does not. A new connection that gets no memory within 3 seconds ends. The peer of a
	// Listener gets a reset, and DialContext returns an error that wraps syscall.ENOBUFS.
	SendBytes int
}

const (
	defaultDepth     = 1024
	defaultSendBytes = 64 << 20
)

// Shared holds the receives, the memory and the completion queues of many connections. Its methods may be
// called concurrently.
//
// On iWARP a message that finds no posted receive ends its connection. A hostile peer that ignores its
// credits can cause this for others of the same Shared. On other transports it only delays them, until
// this side has ended its connection. See ListenConfig.Private.
type Shared struct {
	config SharedConfig
	cm     *cm.Shared

	mu      sync.Mutex // guards the following fields
	budgets map[*verbs.SRQ]*budget
	users   int // connections, and calls that are making one
	closed  bool
}

// NewShared returns a Shared. It takes memory when the first connection on a device is made. The caller
// closes it.
func NewShared(cfg SharedConfig) *Shared {
	cfg.Slot = cmp.Or(cfg.Slot, defaultSlot)
	cfg.Depth = cmp.Or(cfg.Depth, defaultDepth)
	cfg.SendBytes = cmp.Or(cfg.SendBytes, defaultSendBytes)
	// A quarter more than the receives, for messages of connections that are being closed.
	bytes := cfg.Slot*cfg.Depth + cfg.Slot*cfg.Depth/4 + cfg.SendBytes
	return &Shared{
		config: cfg,
		cm: cm.NewShared(cm.SharedConfig{
			Pool:    pool.Config{MaxBytes: bytes},
			Receive: inflight.ReceiveConfig{Size: cfg.Slot, Depth: cfg.Depth, MaxHeld: min(cfg.Depth, maxWindow)},
		}),
		budgets: map[*verbs.SRQ]*budget{},
	}
}

// Close ends the Shared. New connections fail. Dialers return an error that wraps net.ErrClosed, and
// Listeners refuse peers. Existing connections continue, and the memory is freed with the last of them.
// Close may be called more than once.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.closeUnused()
}

// closeUnused frees the memory of a closed Shared without users. The caller holds the lock.
func (s *Shared) closeUnused() error {
	if !s.closed || s.users > 0 {
		return nil
	}
	return s.cm.Close()
}

// enter counts a user, which calls leave. It does not fail for a closed Shared, because cm.Shared then
// refuses the connection.
func (s *Shared) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

// leave ends the use that enter has counted. The last user of a closed Shared frees its memory.
func (s *Shared) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	return s.closeUnused()
}

// budgetOf returns the budget of an SRQ, and counts one more user of it. The user calls leaveBudget.
func (s *Shared) budgetOf(srq *verbs.SRQ) *budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.budgets[srq]
	if b == nil {
		b = newBudget(s.config.Depth)
		s.budgets[srq] = b
	}
	b.users++
	return b
}

// leaveBudget returns the credits of a connection that has ended, and drops a budget without users.
func (s *Shared) leaveBudget(srq *verbs.SRQ, b *budget, credits int) {
	b.leave(credits)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.users--; b.users == 0 {
		delete(s.budgets, srq)
	}
}
