// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"log/slog"

	"purerdma/internal/lograte"
	"purerdma/provider"
)

// Context is an open bnxt_re device.
type Context struct {
	provider.KernelObjects
	pageSize  int
	caps      caps
	shared    sharedPage
	doorbells doorbells
	pacing    pacing
	qps       table
	log       *slog.Logger
	skips     lograte.Counter // completions that made no sense
}

var (
	_ provider.QueuePinner  = (*Context)(nil)
	_ provider.Logger       = (*Context)(nil)
	_ provider.PacketDevice = (*Context)(nil)
)

// Close unmaps the pages. The context's objects have been closed, and so has its file. It may be called more than
// once.
func (c *Context) Close() error {
	return errors.Join(c.doorbells.close(), c.pacing.close(), c.shared.close())
}

// PinsQueues implements provider.QueuePinner.
func (c *Context) PinsQueues() {}

// SetLog implements provider.Logger.
func (c *Context) SetLog(l *slog.Logger) { c.log = l }

// PacketCaps implements provider.PacketDevice. Only the limits of rates are set.
func (c *Context) PacketCaps() provider.PacketCaps { return c.caps.packets }

// Features returns the optional capabilities of the device. It does not report that SEND_WITH_INV invalidates regions,
// because the kernel's driver uses it only for regions that requests register.
func (c *Context) Features() provider.Features {
	return provider.Features{UD: true, Immediate: true, Atomics: c.caps.atomics, ReportsInv: true}
}

// AllocMW returns an error. The kernel's driver reports memory windows, but it has no function alloc_mw for programs.
func (c *Context) AllocMW(pd provider.PD, typ provider.MWType) (provider.MW, error) {
	return nil, unsupported("memory windows")
}
