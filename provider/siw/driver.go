// SPDX-License-Identifier: Apache-2.0

// Package siw is the user-space part of siw, iWARP in software (rdma/siw-abi.h): reliable
// connections over TCP. Its queues are arrays in memory that the kernel made and both sides map,
// without indices. A word in each slot holds its owner. One system call restarts the kernel's
// processing of the send queue after it has stopped. No other is needed.
//
// The connection manager connects queue pairs, and moves them. Package cm reports their state by
// SetState. siw has no datagrams, atomics, immediate data, address handles or multicast, and its
// queues cannot be resized.
package siw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Driver is the siw driver. It has no state.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID returns RDMA_DRIVER_SIW.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_SIW }

// ABIVersions returns 1, the only version.
func (Driver) ABIVersions() (min, max uint32) { return abi.SIW_ABI_VERSION, abi.SIW_ABI_VERSION }

// Open makes a context on f.
func (Driver) Open(f *uverbs.File) (provider.Context, error) {
	var resp abi.SiwUrespAllocCtx
	if _, err := f.GetContext(uverbs.Driver{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return &Context{KernelObjects: provider.KernelObjects{File: f}}, nil
}

// Context is an open siw device.
type Context struct {
	provider.KernelObjects
	keys atomic.Uint32
}

var _ provider.InlineLimiter = (*Context)(nil)

// MaxInline implements provider.InlineLimiter.
func (c *Context) MaxInline() int { return abi.SIW_MAX_INLINE }

// Features returns the capabilities of siw. siw reports an invalidation by a peer only to users in the
// kernel.
func (c *Context) Features() provider.Features {
	return provider.Features{SendInvMR: true, ReadInv: true, ReadNeedsRemoteWrite: true, LateReads: true}
}

// RegMR registers memory. siw identifies it only by its address.
func (c *Context) RegMR(cfg *provider.MRConfig) (provider.MR, error) {
	addr := abi.NewSlicePointer(cfg.Mem)
	if binary.NativeEndian.Uint64(abi.Bytes(&addr)) != cfg.IOVA {
		return nil, fmt.Errorf("siw: memory named by another address than its own: %w", errors.ErrUnsupported)
	}
	// The low byte of a key is chosen by its owner. Varying it invalidates an old key whose number
	// the kernel has reused.
	req := abi.SiwUreqRegMR{STagKey: uint8(c.keys.Add(1))}
	var resp abi.SiwUrespRegMR
	return c.RegMRWith(cfg, uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
}

// CreateAH fails, because iWARP has no datagrams to address.
func (c *Context) CreateAH(*provider.AHConfig) (provider.AH, error) {
	return nil, fmt.Errorf("siw: address handles, iWARP has only connections: %w", errors.ErrUnsupported)
}

// mapSlots maps a queue of n slots that the kernel made, at least want, and more bytes after it.
func mapSlots(f *uverbs.File, m *uverbs.Mapping, key uint64, n, want uint32, size, more int) (ring.Slots, error) {
	// SIW_INVAL_UOBJ_KEY does not mark a missing queue, because the kernel also assigns that offset
	// to a queue. If there is no queue, the command fails. The kernel uses all slots, so a queue of fewer slots
	// would stop.
	if n == 0 || n < want || n > maxSlots || key > 1<<62 {
		return ring.Slots{}, fmt.Errorf("%w: %d slots instead of %d, mapped by %#x", ring.ErrLayout, n, want, key)
	}
	if err := m.Map(f, int64(key), int(n)*size+more); err != nil {
		return ring.Slots{}, fmt.Errorf("map queue: %w", err)
	}
	s, err := ring.NewSlots(m.Bytes(), n, size, wordAt)
	if err != nil {
		return ring.Slots{}, errors.Join(err, m.Close())
	}
	return s, nil
}

// checkSGE checks the number of elements that the kernel grants, at least want.
func checkSGE(granted uint32, want int) error {
	if granted > abi.SIW_MAX_SGE || int(granted) < want {
		return fmt.Errorf("%w: %d scatter/gather elements instead of %d", ring.ErrLayout, granted, want)
	}
	return nil
}

// maxSlots bounds the size of a mapping that the kernel requests. The largest queue of siw is a CQ
// of SIW_MAX_CQE, 3 million rounded up.
const maxSlots = 1 << 22
