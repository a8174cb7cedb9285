// SPDX-License-Identifier: Apache-2.0

// Package rxe is the user-space part of rdma_rxe, RoCE v2 in software (rdma/rdma_user_rxe.h). Its
// queues are rings in memory that the kernel made and both sides map. One system call makes the
// kernel process the send queue, and another arms a completion event.
package rxe

import (
	"errors"
	"fmt"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Driver is the rxe driver. It has no state.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID returns RDMA_DRIVER_RXE.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_RXE }

// ABIVersions returns 2, the only version with rings in this form.
func (Driver) ABIVersions() (min, max uint32) { return 2, 2 }

// Open makes a context on f.
func (Driver) Open(f *uverbs.File) (provider.Context, error) {
	if _, err := f.GetContext(uverbs.Driver{}); err != nil {
		return nil, err
	}
	c := &Context{KernelObjects: provider.KernelObjects{File: f}}
	attr, err := f.QueryDeviceEx(uverbs.Driver{})
	switch {
	case err == nil:
		c.caps, c.maxAH = attr.DeviceCapFlagsEx, attr.Base.MaxAH
	case !errors.Is(err, errors.ErrUnsupported):
		return nil, err
	}
	return c, nil
}

// Context is an open rxe device.
type Context struct {
	provider.KernelObjects
	caps    uint64 // IB_UVERBS_DEVICE_...
	maxAH   uint32
	windows windows
}

var _ provider.InlineLimiter = (*Context)(nil)

// MaxInline implements provider.InlineLimiter.
func (c *Context) MaxInline() int { return maxInline }

// maxUnnumberedAH is the limit of address handles of an rxe that does not number them (up to
// Linux 5.14). Programs cannot post datagrams there. The limit of newer ones is 32767.
const maxUnnumberedAH = 100

// Features returns the capabilities of this kernel's rxe.
func (c *Context) Features() provider.Features {
	has := func(capability uint64) bool { return c.caps&capability != 0 }
	windows2 := has(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A | abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B)
	return provider.Features{
		UC:              true,
		UD:              c.maxAH > maxUnnumberedAH,
		Immediate:       true,
		Atomics:         true,
		AtomicWrite:     has(abi.IB_UVERBS_DEVICE_ATOMIC_WRITE),
		FlushGlobal:     has(abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL),
		FlushPersistent: has(abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT),
		MWType1:         has(abi.IB_UVERBS_DEVICE_MEM_WINDOW),
		MWType2:         windows2,
		LocalInv:        windows2,
		SendInvMW:       windows2,
		ReportsInv:      windows2,
	}
}

// mapQueue maps a queue that the kernel made and checks its layout. minSlot is the number of bytes
// of a slot that the provider uses.
func mapQueue(f *uverbs.File, m *uverbs.Mapping, mi abi.RxeMminfo, minSlot int) (ring.Ring, error) {
	if err := m.Map(f, int64(mi.Offset), int(mi.Size)); err != nil {
		return ring.Ring{}, fmt.Errorf("map queue: %w", err)
	}
	if len(m.Bytes()) < abi.Size[abi.RxeQueueBuf]() {
		return ring.Ring{}, errors.Join(ring.ErrLayout, m.Close())
	}
	buf := abi.View[abi.RxeQueueBuf](m.Bytes())
	r, err := ring.New(m.Bytes(), ring.Layout{
		Producer: 128,
		Consumer: 256,
		Data:     abi.Size[abi.RxeQueueBuf](),
		LogSlot:  buf.Log2ElemSize,
		Mask:     buf.IndexMask,
		MinSlot:  minSlot,
	})
	if err != nil {
		return ring.Ring{}, errors.Join(err, m.Close())
	}
	return r, nil
}
