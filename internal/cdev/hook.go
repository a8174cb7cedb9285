// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"context"
	"sync"
)

// Hook calls a function when a context ends. It stays on that context from one wait to the next,
// because setting a hook costs four allocations. The function may also be called after the wait.
type Hook struct {
	mu     sync.Mutex
	done   <-chan struct{} // of the context that it is on: contexts cannot be compared, this can
	stop   func() bool
	closed bool
}

// Set puts the hook on ctx, if it is not there already.
func (h *Hook) Set(ctx context.Context, fn func()) {
	done := ctx.Done()
	if done == nil {
		return // it never ends
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.done == done {
		return
	}
	if h.stop != nil {
		h.stop()
	}
	h.done, h.stop = done, context.AfterFunc(ctx, fn)
}

// Close removes the hook for good.
func (h *Hook) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.stop != nil {
		h.stop()
	}
	h.done, h.stop = nil, nil
}
