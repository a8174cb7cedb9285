// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"time"

	"purerdma/cm"
)

// The pauses of a Backoff, as those of net/http's server.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// Backoff paces a server that is out of file descriptors or memory, which a client that
// leaves gives back. The zero Backoff is ready.
type Backoff struct{ pause time.Duration }

// Wait reports whether a server goes on after an error, and pauses before it does: longer
// after each failure until Reset. It does not go on when ctx has ended.
func (b *Backoff) Wait(ctx context.Context, err error) bool {
	if !temporary(err) || ctx.Err() != nil {
		return false
	}
	b.pause = min(max(2*b.pause, firstPause), maxPause)
	select {
	case <-time.After(b.pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Reset notes a success.
func (b *Backoff) Reset() { b.pause = 0 }

// temporary reports whether an operation may succeed later. A timeout is the caller's.
func temporary(err error) bool {
	oe, ok := errors.AsType[*cm.OpError](err)
	return ok && oe.Temporary() && !oe.Timeout()
}

// Accept is ln.Accept that waits while the process is out of descriptors or memory. report
// gets each such error; nil ignores them.
func Accept(ctx context.Context, ln *cm.Listener, report func(error)) (*cm.Request, error) {
	var wait Backoff
	for {
		req, err := ln.Accept(ctx)
		if err == nil {
			return req, nil
		}
		if report != nil && temporary(err) {
			report(err)
		}
		if !wait.Wait(ctx, err) {
			return nil, err
		}
	}
}
