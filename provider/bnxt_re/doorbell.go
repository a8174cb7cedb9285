// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/uverbs"
)

// doorbells are the page of registers of a context, and its page for pushing requests. The first protection domain
// brings the page of registers. All queues of the context use its first register.
type doorbells struct {
	mu       sync.Mutex // held while the pages are mapped
	page     *uverbs.Mapping
	register atomic.Pointer[uint64] // nil before the page is mapped
	push     pushPages
}

func (d *doorbells) close() error {
	return errors.Join(d.push.close(), closeMapping(&d.page))
}

// AllocPD allocates a protection domain. The first one brings the doorbells of the context.
func (c *Context) AllocPD() (provider.PD, error) {
	var resp abi.BnxtRePDResp
	pd, err := c.AllocPDWith(uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	if err := c.mapDoorbells(&resp); err != nil {
		return nil, errors.Join(err, pd.Close())
	}
	return pd, nil
}

// mapDoorbells maps the pages that the response for a protection domain names.
func (c *Context) mapDoorbells(r *abi.BnxtRePDResp) error {
	d := &c.doorbells
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.register.Load() != nil {
		return nil
	}
	if int64(r.DBR) < 0 {
		return unsupported("a page of doorbells at %#x", r.DBR)
	}
	m, err := c.File.Mmap(int64(r.DBR), c.pageSize)
	if err != nil {
		return fmt.Errorf("map doorbells: %w", err)
	}
	d.page = m
	if c.caps.push {
		d.push.open(c, base(m))
	}
	d.register.Store((*uint64)(base(m)))
	return nil
}

// needDoorbells maps the doorbells for a queue that is made before any protection domain. The kernel keeps the page
// until the context ends.
func (c *Context) needDoorbells() error {
	if c.doorbells.register.Load() != nil {
		return nil
	}
	pd, err := c.AllocPD()
	if err != nil {
		return fmt.Errorf("bnxt_re: doorbells: %w", err)
	}
	return pd.Close()
}

// ringer rings the doorbell of a queue. The lock of the queue guards it.
type ringer struct {
	register unsafe.Pointer
	pacing   *pacing
	last     uint64 // the last doorbell in the device's byte order
	unused   uint32 // takes the store that releases a lock elsewhere
}

// ringer returns a ringer. needDoorbells has succeeded.
func (c *Context) ringer() ringer {
	return ringer{register: unsafe.Pointer(c.doorbells.register.Load()), pacing: &c.pacing}
}

// ring stores a doorbell after all earlier stores.
func (r *ringer) ring(v uint64) {
	if r.pacing.active() {
		r.pacing.wait()
	}
	mmio.Doorbell(&r.last, endian.Little64(v), r.register, &r.unused)
}
