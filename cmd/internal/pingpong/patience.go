// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// patience is how long a peer that is connected may say nothing. The C programs wait
// for ever, also for a message of UC or UD that has been lost.
const patience = time.Minute

// patient returns a context that ends when the steps have not moved for as long as
// the limit.
func patient(ctx context.Context, limit time.Duration, steps *atomic.Int64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(limit)
		defer tick.Stop()
		// Nothing for a whole tick is nothing for the limit at least, and for less
		// than two.
		for last := int64(-1); ; {
			now := steps.Load()
			if now == last {
				cancel(fmt.Errorf("the peer has been silent for %v", limit))
				return
			}
			last = now
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
