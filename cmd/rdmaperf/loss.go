// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/verbs"
)

// lossTime is for how long nothing may complete before messages count as lost.
const lossTime = 2 * settleTime

// errLost says that an unreliable connection was one.
var errLost = errors.New("nothing has come for a while: messages were lost, as unreliable connections may")

// watchLoss ends ctx when messages were lost, which both sides would wait for for
// ever. It returns what ends the watch. A side that only waits for the other one's
// word has nothing to watch.
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
