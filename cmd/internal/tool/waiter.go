// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"sync"
)

// Waiter guards state that some goroutines change and one goroutine waits for. The zero Waiter
// is ready for use.
type Waiter struct {
	mu   sync.Mutex
	cond func() bool   // condition of Until, nil if no goroutine waits
	met  chan struct{} // closed when cond holds
}

// Do runs fn with the lock held. The waiter wakes only when its condition has become true.
func (w *Waiter) Do(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
	if w.cond != nil && w.cond() {
		w.cond = nil
		close(w.met)
	}
}

// Until waits until cond is true or ctx ends. cond runs with the lock held. Only one goroutine
// may wait at a time.
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
