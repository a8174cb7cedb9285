// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"context"
	"sync/atomic"
)

// Turn is a mutex that a goroutine stops waiting for when its context ends. A free Turn is
// taken and given back by one atomic operation each, which a channel is not. Waiters get
// it in the order in which they have come.
type Turn struct {
	users atomic.Int32  // the holder and the waiters
	next  chan struct{} // has a token from the holder for the next waiter
}

// Init readies a Turn for use.
func (t *Turn) Init() { t.next = make(chan struct{}, 1) }

// Take waits for the turn. Give follows, unless ctx has ended first. In that case Take returns the
// error of ContextError. A free turn is also taken if the context has ended.
func (t *Turn) Take(ctx context.Context) error {
	if t.users.Add(1) == 1 {
		return nil
	}
	select {
	case <-t.next:
		return nil
	case <-ctx.Done():
	}
	for n := t.users.Load(); n > 1; n = t.users.Load() {
		if t.users.CompareAndSwap(n, n-1) {
			return ContextError(ctx)
		}
	}
	// The holder has left, and this is the only waiter: the token is there, or on its way.
	<-t.next
	t.Give()
	return ContextError(ctx)
}

// Give ends the turn.
func (t *Turn) Give() {
	if t.users.Add(-1) > 0 {
		t.next <- struct{}{}
	}
}
