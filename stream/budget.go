// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/internal/fifo"
)

// budget divides the receives of an SRQ among connections. There is a posted receive for each credit of a
// peer. A used credit counts until the program has freed its message, because the receive is posted again
// then.
//
// Each connection has baseWindow credits as long as it exists. A connection whose peer sends data gets
// more while the budget has some, and otherwise waits in a queue. An idle peer returns its credits above
// baseWindow. While new connections wait for their base, connections also return those credits as they
// free messages.
//
// Locks are taken in this order: link.mu, budget.mu.
type budget struct {
	mu      sync.Mutex // guards the following fields
	free    int        // receives that are not in the window of a connection
	reserve int        // number of free receives that are kept for new connections
	half    int        // half of all receives
	// lent counts the credits of connections beyond their base.
	lent    int
	waiting fifo.Queue[*link]
	// arrivals are new connections that wait for their base. Each gets it when its channel is closed.
	arrivals []chan struct{}
	serving  bool // serve runs
	users    int  // connections, and calls that are making one. Guarded by Shared.mu

	// wanted is set while arrivals has elements.
	wanted atomic.Bool

	sending sendMemory // of the same connections
}

// waiterShare is the number of credits that a waiting connection gets at a time.
const waiterShare = 4

func newBudget(cfg *SharedConfig) *budget {
	depth := cfg.Depth
	return &budget{free: depth, reserve: depth / 4, half: depth / 2, sending: sendMemory{free: cfg.SendBytes}}
}

// arrivalWait bounds how long a new connection waits for its base. An idle connection returns its extra
// credits within twice returnAfter.
const arrivalWait = 3 * returnAfter

// base takes the credits of a new connection, between baseWindow and most. If too few are free and other
// connections have more than their base, it waits until those return some, at most for arrivalWait. It
// returns 0 if it gets none, or if ctx ends first.
func (b *budget) base(ctx context.Context, most int) int {
	n, arrival := b.arrive(most)
	if arrival == nil {
		return n
	}
	timer := time.NewTimer(arrivalWait)
	defer timer.Stop()
	select {
	case <-arrival:
		return baseWindow
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.arrivals, arrival)
	if i < 0 {
		return baseWindow // freed has granted them after the wait
	}
	b.arrivals = slices.Delete(b.arrivals, i, i+1)
	b.wanted.Store(len(b.arrivals) > 0)
	return 0
}

// arrive takes the credits of a new connection. If too few are free, it returns a channel that is closed
// when the connection has its base. It returns 0 and nil if the other connections cannot return enough.
func (b *budget) arrive(most int) (n int, arrival chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.arrivals) == 0 && b.free >= baseWindow:
		n = baseWindow + max(0, min(most-baseWindow, firstExtra, b.free-baseWindow-b.half))
		b.free -= n
		b.lent += n - baseWindow
		return n, nil
	case b.free+b.lent < baseWindow*(len(b.arrivals)+1):
		return 0, nil
	}
	arrival = make(chan struct{})
	b.arrivals = append(b.arrivals, arrival)
	b.wanted.Store(true)
	return 0, arrival
}

// firstExtra bounds the credits that a new connection gets beyond its base. It gets none if half of the
// receives are in use.
const firstExtra = 5

// spare returns the number of credits that connections may have beyond their base. The caller holds
// the lock.
func (b *budget) spare() int {
	if b.waiting.Len() > 0 || len(b.arrivals) > 0 {
		return 0
	}
	return max(0, b.free-b.reserve)
}

// extra takes up to n further credits for a connection, and returns their number. If it is 0, the
// connection joins the queue, and serve calls its widen later. The caller holds the lock of the link.
func (b *budget) extra(l *link, n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.spare())
	if n == 0 && !l.waits {
		l.waits = true
		b.waiting.Push(l)
	}
	b.free -= n
	b.lent += n
	return n
}

// release returns credits beyond the base of a connection.
func (b *budget) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent -= n
	b.freed(n)
}

// leave returns all credits of a connection that has ended. window is 0 if it got no base.
func (b *budget) leave(window int) {
	if window == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent -= window - baseWindow
	b.freed(window)
}

// freed adds n returned credits, and grants them to the waiting connections, the new ones first. The
// caller holds the lock.
func (b *budget) freed(n int) {
	b.free += n
	for len(b.arrivals) > 0 && b.free >= baseWindow {
		close(b.arrivals[0])
		b.arrivals = slices.Delete(b.arrivals, 0, 1)
		b.free -= baseWindow
		b.wanted.Store(len(b.arrivals) > 0)
	}
	if len(b.arrivals) == 0 && b.waiting.Len() > 0 && b.free > b.reserve && !b.serving {
		b.serving = true
		go b.serve() // the caller may hold the lock of a link
	}
}

// serve grants free credits to the connections in waiting, in their order.
func (b *budget) serve() {
	for {
		b.mu.Lock()
		if b.waiting.Len() == 0 || b.free <= b.reserve || len(b.arrivals) > 0 {
			b.serving = false
			b.mu.Unlock()
			return
		}
		l := b.waiting.Pop()
		l.waits = false
		n := min(waiterShare, b.free-b.reserve)
		b.free -= n
		b.lent += n
		b.mu.Unlock()
		l.widen(n)
	}
}
