// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// patience is the time limit for a connected peer without progress. The C programs wait
// forever, even for a lost message of UC or UD.
const patience = time.Minute

// patient returns a context that ends when steps has not changed for limit.
func patient(ctx context.Context, limit time.Duration, steps *atomic.Int64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(limit)
		defer tick.Stop()
		// If nothing changes for a whole tick, the silence is between one and two limits long.
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
