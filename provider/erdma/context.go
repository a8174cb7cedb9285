// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"log/slog"

	"purerdma/internal/lograte"
	"purerdma/provider"
	"purerdma/provider/internal/dbrec"
)

// Context is an open erdma device.
type Context struct {
	provider.KernelObjects
	pageSize  int
	iwarp     bool // the connection manager of the kernel moves the QPs
	atomics   bool
	doorbells doorbells
	records   dbrec.Pool
	qps       table
	log       *slog.Logger
	skips     lograte.Counter // completions that made no sense
}

var (
	_ provider.QueuePinner   = (*Context)(nil)
	_ provider.Logger        = (*Context)(nil)
	_ provider.SGELimiter    = (*Context)(nil)
	_ provider.InlineLimiter = (*Context)(nil)
)

// recordSize is the distance of two doorbell records, the cache line of most processors.
const recordSize = 64

// Close unmaps the doorbells. The context's objects have been closed, and so has its file. It may be
// called more than once.
func (c *Context) Close() error { return c.doorbells.close() }

// PinsQueues implements provider.QueuePinner.
func (c *Context) PinsQueues() {}

// MaxSGE implements provider.SGELimiter. liberdma has the same constants.
func (c *Context) MaxSGE() (send, recv int) { return maxSendSGE, maxRecvSGE }

// MaxInline implements provider.InlineLimiter.
func (c *Context) MaxInline() int { return maxInline }

// SetLog implements provider.Logger.
func (c *Context) SetLog(l *slog.Logger) { c.log = l }

// Features returns the optional capabilities of the device. It does not report that SEND_WITH_INV
// invalidates regions, because the kernel's driver uses it only for regions that requests register.
func (c *Context) Features() provider.Features {
	return provider.Features{
		Immediate:            true,
		Atomics:              c.atomics,
		ReportsInv:           true,
		ReadNeedsRemoteWrite: c.iwarp,
	}
}

// CreateAH fails, because the driver has datagrams for the kernel only.
func (c *Context) CreateAH(*provider.AHConfig) (provider.AH, error) {
	return nil, unsupported("address handles")
}

// CreateSRQ fails, because the adapter has no shared receive queues.
func (c *Context) CreateSRQ(*provider.SRQConfig) (provider.SRQ, error) {
	return nil, unsupported("shared receive queues")
}

// AllocMW fails, because the adapter has no memory windows.
func (c *Context) AllocMW(provider.PD, provider.MWType) (provider.MW, error) {
	return nil, unsupported("memory windows")
}
