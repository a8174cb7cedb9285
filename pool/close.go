// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"errors"
	"slices"
)

// Close ends the pool. Waiting and later calls of Get fail with net.ErrClosed. Bufs in use stay valid.
// Close deregisters the unused slabs. When the last Buf of another slab is freed, a goroutine of the pool
// deregisters that slab, so that Free never waits for the kernel.
//
// If the kernel refuses to deregister a slab, Close returns the error, and the next Close tries again.
// Close also waits for that goroutine, and tries the slabs that the goroutine could not deregister. So if
// no Buf is in use and no Get is running, a Close that returns nil leaves no registered memory and no
// goroutine. Close may be called more than once.
//
// In debug mode Close returns an error that lists the Bufs in use, with the stack of their Get.
func (p *Pool) Close() error {
	p.closing.Lock()
	defer p.closing.Unlock()
	p.mu.Lock()
	p.closed = true
	for w := p.waiters.pop(); w != nil; w = p.waiters.pop() {
		w.err = p.errClosed()
		w.ready <- struct{}{}
	}
	for p.ended != nil {
		ended := p.ended
		p.mu.Unlock()
		<-ended
		p.mu.Lock()
	}
	p.flush()
	idle := p.removeIdle(p.max)
	errs := []error{p.notFreed()}
	p.mu.Unlock()
	p.uncount()
	for _, s := range idle {
		errs = append(errs, p.deregister(s))
	}
	return errors.Join(errs...)
}

// deregister closes the memory region of a slab that is idle and not in p.slabs. If the kernel refuses, it
// adds the slab to p.slabs for the next Close.
func (p *Pool) deregister(s *slab) error {
	err := s.mr.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.slabs = append(p.slabs, s)
	} else {
		p.registered -= s.size
	}
	return err
}

// deregisterLater passes an idle slab of the closed pool to a goroutine that deregisters it. The caller
// may be Free, which must not wait for the kernel. There is at most one such goroutine. The caller holds
// p.mu.
func (p *Pool) deregisterLater(s *slab) {
	p.slabs = slices.DeleteFunc(p.slabs, func(other *slab) bool { return other == s })
	p.freed = append(p.freed, s)
	if p.ended == nil {
		p.ended = make(chan struct{})
		go p.deregisterFreed()
	}
}

// deregisterFreed deregisters the slabs in p.freed.
func (p *Pool) deregisterFreed() {
	p.mu.Lock()
	for len(p.freed) > 0 {
		s := p.freed[0]
		p.freed = p.freed[1:]
		p.mu.Unlock()
		_ = p.deregister(s) // the next Close tries again
		p.mu.Lock()
	}
	close(p.ended)
	p.freed, p.ended = nil, nil
	p.mu.Unlock()
}
