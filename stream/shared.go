// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"math/bits"
	"sync"
	"time"

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
	// Each connection may have one block more, which is a frame of at most 16 KiB or Slot bytes. A Write
	// or WriteBuf waits while its connection has more of SendBytes than is free. So one connection gets about
	// half of it, and connections whose peers take no data leave a part to the others. Close frees their
	// memory, and a write deadline does not. The sizes of blocks count rounded up to a power of two.
	//
	// A Buf of Conn.Pool counts from WriteBuf on. Before that the program can use up the memory with its
	// Bufs. A new connection that gets no memory within 3 seconds then ends. The peer of a Listener gets a
	// reset, and DialContext returns an error that wraps syscall.ENOBUFS.
	SendBytes int
	// Spin bounds how long a goroutine that waits for a peer polls before it sleeps, as in Options.
	Spin time.Duration
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
	return &Shared{
		config: cfg,
		cm: cm.NewShared(cm.SharedConfig{
			Pool:    pool.Config{MaxBytes: cfg.poolBytes()},
			Receive: inflight.ReceiveConfig{Size: cfg.Slot, Depth: cfg.Depth, MaxHeld: min(cfg.Depth, maxWindow)},
			Poller:  inflight.PollerConfig{Spin: cfg.Spin},
		}),
		budgets: map[*verbs.SRQ]*budget{},
	}
}

// poolBytes returns the bound of the pool on a device. It has room for all memory that connections may
// have at a time, so that only sendMemory lets connections wait.
func (cfg *SharedConfig) poolBytes() int {
	// A quarter more than the receives, for messages of connections that are being closed.
	receives := poolBlock(cfg.Slot) * (cfg.Depth + cfg.Depth/4)
	connections := cfg.Depth / baseWindow * (poolBlock(max(cfg.Slot, defaultSlot)) + poolBlock(headerBytes))
	bytes := receives + connections + cfg.SendBytes
	slab := min(pool.DefaultSlabSize, poolBlock(max(bytes, 1))) // pool.New refuses less than a page
	return (bytes + slab - 1) / slab * slab                     // the pool registers whole slabs
}

// poolBlock returns the number of bytes that a Buf of n bytes takes of the pool. It is a power of two, because the
// pool divides its slabs by halves. The pool uses the rest of such a block only for smaller Bufs.
func poolBlock(n int) int { return 1 << bits.Len(uint(n-1)) }

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

// enter counts a user of the Shared. The user calls leave later. enter does not fail for a closed Shared,
// because cm.Shared then refuses the connection.
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
		b = newBudget(&s.config)
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
