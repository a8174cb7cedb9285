// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"context"
	"fmt"
	"log/slog"
	"unsafe"
)

// CQEError reports an invalid completion queue entry. The device is faulty, or the kernel has
// programmed wrong addresses into it. Poll returns the error only with Driver.Strict.
type CQEError struct {
	CQ     uint32 // the device's number of the CQ
	Reason string
	// CQE is the entry as it was found. If its format is not the plain one, the first 32
	// bytes may be data of a message and are zeros here.
	CQE [cqeSize]byte
}

// Error names the CQ, the reason and the entry.
func (e *CQEError) Error() string {
	return fmt.Sprintf("mlx5: CQ %#x: impossible completion: %s: % x", e.CQ, e.Reason, e.CQE)
}

// fail counts, logs and skips an invalid entry. If the entry names a QP, c.qp fails, because one of
// its requests may never complete. With Driver.Strict the CQ cannot be polled any more. The caller
// holds the lock.
//
//go:noinline
func (c *CQ) fail(e unsafe.Pointer, reason string) outcome {
	err := c.impossible(e, reason)
	if c.ctx.strict {
		c.stop(err)
		return failed
	}
	c.skipped.Add(1)
	c.pending.Store(true)
	c.ctx.logSkipped(err, c.qp)
	if c.qp != nil {
		c.qp.fail(reason)
	}
	return skipped
}

// impossible returns the error that an entry makes no sense.
func (c *CQ) impossible(e unsafe.Pointer, reason string) *CQEError {
	err := &CQEError{CQ: c.num, Reason: reason}
	copy(err.CQE[:], unsafe.Slice((*byte)(e), cqeSize))
	if err.CQE[cqeOpOwn]>>2&3 != formatPlain {
		clear(err.CQE[:32])
	}
	return err
}

// Skipped returns the number of invalid entries that the CQ has skipped. A working device writes
// none. After the first one, polls look for requests whose completions were lost, and take longer.
func (c *CQ) Skipped() uint64 { return c.skipped.Load() }

// logSkipped logs an invalid entry, and the QP that it names, if any. It writes one record in
// lograte.Interval. It logs in another goroutine, because the caller holds the CQ's lock. A handler
// may take any time, or poll the CQ itself.
func (c *Context) logSkipped(err *CQEError, q *QP) {
	since, due := c.skips.Add()
	if c.log == nil || !due {
		return
	}
	attrs := []slog.Attr{
		slog.String("device", c.file.Info().Name),
		slog.String("cq", fmt.Sprintf("%#x", err.CQ)),
		slog.String("reason", err.Reason),
		slog.String("cqe", fmt.Sprintf("%x", err.CQE)),
		slog.Uint64("completions", since),
	}
	if q != nil {
		attrs = append(attrs, slog.String("qp", fmt.Sprintf("%#x", q.num)))
	}
	go c.log.LogAttrs(context.Background(), slog.LevelError, "completion not understood", attrs...)
}

// SetLog implements provider.Logger.
func (c *Context) SetLog(l *slog.Logger) { c.log = l }

// stop has all polls return err from now on. The caller holds the lock.
func (c *CQ) stop(err error) {
	c.err = err
	c.ring, c.mask = unsafe.Pointer(&emptyRing), 0
}

// emptyRing is one entry that the device has never written.
var emptyRing = func() (r struct {
	_   [0]uint64
	cqe [cqeSize]byte
}) {
	r.cqe[cqeOpOwn] = cqeInvalid << 4
	return r
}()
