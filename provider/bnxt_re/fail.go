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
	if q == nil {
		return
	}
	resets := q.resets.Load()
	if old := q.failure.Load(); old != resets+1 && q.failure.CompareAndSwap(old, resets+1) {
		go q.end(reason, resets) // a command cannot run here
	}
}

// end reports the failure of a failing QP, and moves the QP to the error state. The report comes first, because the move
// completes the outstanding requests. resets is the count when the QP failed.
func (q *qp) end(reason string, resets uint64) {
	defer q.failure.CompareAndSwap(resets+1, 0) // the next such entry tries again
	fails := func() bool {
		q.commands.Lock()
		defer q.commands.Unlock()
		return q.fails(resets)
	}
	if q.failed != nil && fails() {
		q.failed(&provider.InvalidCompletionError{QPNum: q.num, Reason: reason}, fails)
	}
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.fails(resets) {
		_ = q.modifyLocked(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState)
	}
}

// fails reports whether a QP that failed after so many resets is still to be moved to the error state. The caller holds
// q.commands.
func (q *qp) fails(resets uint64) bool {
	s := q.State()
	return q.resets.Load() == resets && s != provider.QPReset && s != provider.QPErr && !q.closed.Load()
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
