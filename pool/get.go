// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Get returns a Buf of n bytes. If there is no free memory and MaxBytes is reached, it waits until
// memory is freed, the context ends, the pool is closed, or the device is removed. Waiting calls are
// served in their order, so that a large request does not wait for ever behind small ones. If
// memory is free, Get takes it even if the context has ended.
//
// Get fails at once if n is less than 1 or more than MaxBytes, and if memory cannot be registered.
// That error names RLIMIT_MEMLOCK if it may be the reason. The caller frees the Buf.
func (p *Pool) Get(ctx context.Context, n int) (*Buf, error) {
	cdev.NeedContext(ctx)
	b := p.getCached(n)
	if b == nil {
		var err error
		if b, err = p.get(ctx, n, true); err != nil {
			return nil, err
		}
	}
	if p.debug {
		p.handOut(b)
	}
	return b, nil
}

// TryGet is Get without waiting. It returns an error that wraps ErrExhausted where Get would wait.
// It may register memory.
func (p *Pool) TryGet(n int) (*Buf, error) {
	b := p.getCached(n)
	if b == nil {
		var err error
		if b, err = p.get(context.Background(), n, false); err != nil {
			return nil, err
		}
	}
	if p.debug {
		p.handOut(b)
	}
	return b, nil
}

// getCached returns a Buf that was freed before, nil if there is none of the class. Most calls of
// Get do nothing else.
func (p *Pool) getCached(n int) *Buf {
	if n < 1 || unitsFor(n) > p.whole {
		return nil
	}
	class := classOf(unitsFor(n))
	p.mu.Lock()
	b := p.cache[class]
	if b != nil {
		p.popCached(class, n)
	}
	p.mu.Unlock()
	return b
}

// popCached takes the first Buf of a list in p.cache for n bytes.
func (p *Pool) popCached(class, n int) *Buf {
	b := p.cache[class]
	p.cache[class] = b.next
	p.cached--
	p.handed(b, n)
	return b
}

// handed counts a Buf of n bytes in use.
func (p *Pool) handed(b *Buf, n int) {
	p.inUse += b.block()
	p.gets++
	b.next, b.n = nil, n
	b.refs.Store(1)
}

// get is Get, or TryGet without mayWait, if no freed Buf fits.
func (p *Pool) get(ctx context.Context, n int, mayWait bool) (*Buf, error) {
	if n < 1 || n > p.max {
		return nil, p.opError(fmt.Errorf("%d bytes, MaxBytes is %d: %w", n, p.max, syscall.EINVAL))
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, p.errClosed()
	}
	if p.waiters.n == 0 {
		if b := p.take(n); b != nil {
			p.mu.Unlock()
			return b, nil
		}
		// Other calls of Get wait for the slab of the first, which may be large enough for all.
		if p.growing == 0 || !mayWait {
			if g, ok := p.reserve(n); ok {
				p.mu.Unlock()
				return p.grow(n, g)
			}
		}
	}
	if !mayWait {
		p.mu.Unlock()
		return nil, p.opError(fmt.Errorf("%d bytes, MaxBytes is %d: %w", n, p.max, ErrExhausted))
	}
	w := p.waiters.push(n)
	p.waits++
	p.mu.Unlock()
	return p.wait(ctx, w)
}

// wait waits for the turn of w.
func (p *Pool) wait(ctx context.Context, w *waiter) (*Buf, error) {
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = p.opError(fmt.Errorf("%d bytes: %w", w.n, cdev.ContextError(ctx)))
	case <-p.pd.Device().Done():
		err = internals.OpError(p.pd, "get pool memory on", net.ErrClosed)
	}
	p.mu.Lock()
	if err != nil {
		if w.queued {
			p.waiters.remove(w)
			p.waiters.recycle(w)
			p.serve() // the next one may need less
			p.mu.Unlock()
			return nil, err
		}
		<-w.ready // its turn came first
	}
	n, b, g := w.n, w.buf, w.growth
	err = w.err
	p.waiters.recycle(w)
	p.mu.Unlock()
	if b != nil || err != nil {
		return b, err
	}
	return p.grow(n, g)
}

// serve hands free memory to waiting calls, in their order. The first call registers another slab if it
// needs one and MaxBytes allows it. The caller holds p.mu.
func (p *Pool) serve() {
	for w := p.waiters.first; w != nil; w = p.waiters.first {
		if w.buf = p.take(w.n); w.buf == nil {
			if p.growing > 0 {
				return
			}
			var ok bool
			if w.growth, ok = p.reserve(w.n); !ok {
				return
			}
		}
		p.waiters.pop()
		w.ready <- struct{}{}
	}
}

// take returns a Buf of free memory, or nil. The caller holds p.mu.
func (p *Pool) take(n int) *Buf {
	units := unitsFor(n)
	if units > p.whole {
		p.flush()
		return p.takeWhole(n)
	}
	class := classOf(units)
	if p.cache[class] != nil {
		return p.popCached(class, n)
	}
	b := p.carve(class, n)
	if b == nil && p.cached > 0 {
		p.flush()
		b = p.carve(class, n)
	}
	return b
}

// carve takes a block of a divided slab.
func (p *Pool) carve(class, n int) *Buf {
	for _, s := range p.slabs {
		if at, ok := s.take(classUnits(class)); ok {
			return p.newBuf(s, at, class, n)
		}
	}
	return nil
}

// takeWhole takes the smallest idle slab that is large enough, unless it is more than twice as
// large.
func (p *Pool) takeWhole(n int) *Buf {
	var best *slab
	for _, s := range p.slabs {
		if s.idle() && !s.borrowed && s.size >= n && s.size/2 <= n && (best == nil || s.size < best.size) {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	best.takeWhole()
	return p.newBuf(best, 0, wholeSlab, n)
}

// newBuf returns a Buf for a block that was taken.
func (p *Pool) newBuf(s *slab, at, class, n int) *Buf {
	b := p.spare
	if b == nil {
		b = &Buf{pool: p}
	} else {
		p.spare = b.next
	}
	b.slab, b.at, b.class = s, at, int16(class)
	p.handed(b, n)
	return b
}

// release takes back the memory of b after the last Free.
func (p *Pool) release(b *Buf) {
	p.mu.Lock()
	p.inUse -= b.block()
	if p.waiters.n == 0 && !p.closed && b.class >= 0 {
		b.next = p.cache[b.class]
		p.cache[b.class] = b
		p.cached++
		p.mu.Unlock()
		return
	}
	s := b.slab
	p.put(b)
	if !p.closed {
		p.serve()
		p.mu.Unlock()
		return
	}
	if s.idle() {
		p.deregisterLater(s)
	}
	p.mu.Unlock()
}

// put frees the block of b, and keeps b for another block. The caller holds p.mu.
func (p *Pool) put(b *Buf) {
	switch s := b.slab; b.class {
	case wholeSlab:
		s.put(0, s.units)
	case borrowedPiece:
		if s.endUse(); s.idle() {
			p.inUse -= s.size
		}
	default:
		s.put(b.at, classUnits(int(b.class)))
	}
	b.slab = nil
	b.next = p.spare
	p.spare = b
}

// flush merges the freed blocks in p.cache, so that blocks of other sizes can be made of them. The
// caller holds p.mu.
func (p *Pool) flush() {
	if p.cached == 0 {
		return
	}
	for class, b := range p.cache {
		for b != nil {
			next := b.next
			p.put(b)
			b = next
		}
		p.cache[class] = nil
	}
	p.cached = 0
}

// growth is a decision to register a slab.
type growth struct {
	size    int
	evict   []*slab // to be deregistered before
	mem     []byte  // the program's memory to be registered, or nil
	held    int     // bytes that reserve has added to Pool.registered
	evicted int     // bytes that were deregistered
}

// reserve decides how to register a slab for n bytes, for which there is no free memory. It returns false
// if MaxBytes does not allow a slab. The caller holds p.mu, and calls grow after it has released it.
func (p *Pool) reserve(n int) (g growth, ok bool) {
	if p.slabSize == 0 {
		return g, false
	}
	g.size = p.slabSize
	if n > p.slabSize {
		page := os.Getpagesize()
		g.size = (n + page - 1) &^ (page - 1)
	}
	return p.reserveBytes(g)
}

// reserveBytes is reserve for g.size bytes.
func (p *Pool) reserveBytes(g growth) (growth, bool) {
	if excess := p.registered + g.size - p.max; excess > 0 {
		if g.evict = p.removeIdle(excess); g.evict == nil {
			return g, false
		}
	}
	// The evicted slabs count until the kernel has deregistered them, which it may refuse.
	g.held = g.size
	for _, s := range g.evict {
		g.held = max(g.held-s.size, 0)
	}
	p.registered += g.held
	p.growing++
	return g, true
}

// removeIdle removes idle slabs with n bytes together from p.slabs. If they have less, it removes none, or
// all of them if the pool is closed. The caller holds p.mu.
func (p *Pool) removeIdle(n int) (removed []*slab) {
	size, count := 0, 0
	for _, s := range p.slabs {
		if size < n && s.idle() {
			size += s.size
			count++
		}
	}
	if count == 0 || size < n && !p.closed {
		return nil
	}
	p.slabs = slices.DeleteFunc(p.slabs, func(s *slab) bool {
		if count == 0 || !s.idle() {
			return false
		}
		count--
		removed = append(removed, s)
		return true
	})
	return removed
}

// grow registers the slab that reserve has decided on, and returns a Buf of it.
func (p *Pool) grow(n int, g growth) (*Buf, error) {
	var s *slab
	mr, err := p.register(&g)
	switch {
	case err != nil:
	case g.mem != nil:
		s = newBorrowed(mr)
	default:
		s = newSlab(mr, g.size == p.slabSize, p.debug)
	}
	p.mu.Lock()
	p.growing--
	p.slabs = append(p.slabs, g.evict...)
	p.registered -= g.held + g.evicted
	if err != nil {
		err = p.registerError(n, err)
		p.serve() // the next one may need less
		p.mu.Unlock()
		return nil, err
	}
	p.registered += g.size
	p.registrations++
	if p.closed {
		p.mu.Unlock()
		_ = p.deregister(s) // the next Close tries again
		return nil, p.errClosed()
	}
	p.slabs = append(p.slabs, s)
	var b *Buf
	switch {
	case s.borrowed:
		b = p.newBorrowedBuf(s, 0, n)
	case s.orders == nil:
		s.takeWhole()
		b = p.newBuf(s, 0, wholeSlab, n)
	default:
		class := classOf(unitsFor(n))
		at, _ := s.take(classUnits(class))
		b = p.newBuf(s, at, class, n)
	}
	p.serve()
	p.mu.Unlock()
	return b, nil
}

// register deregisters the slabs of g.evict, and registers new memory. It leaves the slabs that are
// still registered in g.evict.
func (p *Pool) register(g *growth) (*verbs.MR, error) {
	for len(g.evict) > 0 {
		if err := g.evict[0].mr.Close(); err != nil {
			return nil, err
		}
		g.evicted += g.evict[0].size
		g.evict = g.evict[1:]
	}
	if g.mem != nil {
		return p.pd.RegMR(g.mem, 0)
	}
	if huge := hugePage(); huge > 0 && g.size%huge == 0 {
		if mr, err := internals.Alloc(p.pd, g.size, p.access, true, p.node); err == nil {
			return mr, nil
		}
	}
	return internals.Alloc(p.pd, g.size, p.access, false, p.node)
}

// registerError adds the size of the pool to an error that the size may have caused. The caller
// holds p.mu.
func (p *Pool) registerError(n int, err error) error {
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EPERM) {
		err = fmt.Errorf("%d bytes, %d of at most %d bytes are registered: %w", n, p.registered, p.max, err)
	}
	return p.opError(err)
}
