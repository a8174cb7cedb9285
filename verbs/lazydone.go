// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
)

// lazyDone is a context that ends once. It is created on first use, because most objects never need
// it.
type lazyDone struct {
	mu     sync.Mutex
	over   bool
	ctx    context.Context // or nil
	cancel context.CancelFunc
}

func (e *lazyDone) context() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx == nil {
		e.ctx, e.cancel = context.WithCancel(context.Background())
		if e.over {
			e.cancel()
		}
	}
	return e.ctx
}

func (e *lazyDone) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.cancel != nil {
		e.cancel()
	}
}
