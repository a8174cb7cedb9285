// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
)

// hook has a function called when a context ends, and stays on that context from
// one wait to the next: to set one costs four allocations. What it calls must
// bear to be called after the wait.
type hook struct {
	mu     sync.Mutex
	done   <-chan struct{} // of the context that it is on: contexts cannot be compared, this can
	stop   func() bool
	closed bool
}

// set puts the hook on ctx, if it is not there already.
func (h *hook) set(ctx context.Context, fn func()) {
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

// close takes the hook off, for good.
func (h *hook) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.stop != nil {
		h.stop()
	}
	h.done, h.stop = nil, nil
}
