// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/verbs"
)

// lossTime is the time without a completion after which messages count as lost.
const lossTime = 2 * settleTime

// errLost reports lost messages on an unreliable connection.
var errLost = errors.New("messages lost on an unreliable connection: no completion for a while")

// watchLoss ends ctx when messages were lost, because both sides would wait for them forever.
// It returns a function that ends the watch. A side that only waits for a control message has
// nothing to watch.
func (e *end) watchLoss(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	if e.connection == verbs.RC || !e.client && !e.kind.active() {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(lossTime)
		defer tick.Stop()
		for before := e.booked.Load(); ; {
			select {
			case <-tick.C:
			case <-quit:
				return
			case <-ctx.Done():
				return
			}
			now := e.booked.Load()
			if now == before {
				cancel(errLost)
				return
			}
			before = now
		}
	}()
	return func() { close(quit); <-gone }
}
