// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"sync"
)

// Waiter guards what some goroutines change and one waits for. The zero Waiter
// is ready for use.
type Waiter struct {
	mu   sync.Mutex
	cond func() bool   // what Until waits for, nil if nobody waits
	met  chan struct{} // closed when cond holds
}

// Do runs fn with the lock held. The waiter wakes only when what it waits for has
// come true.
func (w *Waiter) Do(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
	if w.cond != nil && w.cond() {
		w.cond = nil
		close(w.met)
	}
}

// Until waits until cond, which runs with the lock held, is true or ctx ends. One
// goroutine may wait at a time.
func (w *Waiter) Until(ctx context.Context, cond func() bool) error {
	w.mu.Lock()
	if cond() {
		w.mu.Unlock()
		return nil
	}
	w.cond, w.met = cond, make(chan struct{})
	met := w.met
	w.mu.Unlock()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cond = nil
		return ctx.Err()
	}
}
