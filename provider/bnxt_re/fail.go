// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"context"
	"fmt"
	"log/slog"
	"unsafe"

	"purerdma/provider"
)

// fail counts and logs an entry that makes no sense. If the entry names a QP, the QP moves to the error state, because
// one of its requests may never complete. The entries of a QP that has stopped do not count, because they may be of
// requests that the provider has flushed. The caller holds the lock.
//
//go:noinline
func (c *cq) fail(e unsafe.Pointer, q *qp, reason string) {
	if q != nil && (q.stopping.Load() || q.stopped.Load()) {
		return
	}
	c.skipped.Add(1)
	c.ctx.logSkipped(c.num, e, reason)
	if q != nil && q.failing.CompareAndSwap(false, true) {
		go q.end() // a command cannot run here
	}
}

// end moves a failing QP to the error state.
func (q *qp) end() {
	if s := q.State(); s != provider.QPReset && s != provider.QPErr {
		_ = q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState) // the next such entry tries again
	}
	q.failing.Store(false)
}

// logSkipped logs an entry that makes no sense. It writes one record in lograte.Interval. It logs in another goroutine,
// because the caller holds the CQ's lock, and a handler may take any time or poll the CQ itself.
func (c *Context) logSkipped(cq uint32, e unsafe.Pointer, reason string) {
	since, due := c.skips.Add()
	if c.log == nil || !due {
		return
	}
	var entry [cqeSize]byte
	copy(entry[:], unsafe.Slice((*byte)(e), cqeSize))
	go c.log.LogAttrs(context.Background(), slog.LevelError, "completion not understood",
		slog.String("device", c.File.Info().Name),
		slog.String("cq", fmt.Sprintf("%#x", cq)),
		slog.String("reason", reason),
		slog.String("cqe", fmt.Sprintf("%x", entry)),
		slog.Uint64("completions", since))
}
