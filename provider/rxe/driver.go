// SPDX-License-Identifier: Apache-2.0

// Package rxe is the user-space half of rdma_rxe, RoCE v2 in software
// (rdma/rdma_user_rxe.h). Its queues are rings in memory that the kernel made
// and both sides map; a system call tells the kernel that there is something to
// send, and another asks for a completion event.
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

// ID is RDMA_DRIVER_RXE.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_RXE }

// ABIVersions returns 2: the only version with rings in this form.
func (Driver) ABIVersions() (min, max uint32) { return 2, 2 }

// Open makes a context on f.
func (Driver) Open(f *uverbs.File) (provider.Context, error) {
	if _, err := f.GetContext(uverbs.Driver{}); err != nil {
		return nil, err
	}
	c := &Context{Plain: provider.Plain{File: f}}
	attr, err := f.QueryDeviceEx(uverbs.Driver{})
	switch {
	case err == nil:
		c.caps = attr.DeviceCapFlagsEx
	case !errors.Is(err, errors.ErrUnsupported):
		return nil, err
	}
	return c, nil
}

// Context is an open rxe device.
type Context struct {
	provider.Plain
	caps    uint64 // IB_UVERBS_DEVICE_...
	windows windows
}

// mapQueue maps a queue that the kernel made and checks its layout: minSlot is
// what will be touched of a slot.
func mapQueue(f *uverbs.File, mi abi.RxeMminfo, minSlot int) (*uverbs.Mapping, ring.Ring, error) {
	m, err := f.Mmap(int64(mi.Offset), int(mi.Size))
	if err != nil {
		return nil, ring.Ring{}, fmt.Errorf("map queue: %w", err)
	}
	if len(m.Bytes()) < abi.Size[abi.RxeQueueBuf]() {
		return nil, ring.Ring{}, errors.Join(ring.ErrLayout, m.Close())
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
		return nil, ring.Ring{}, errors.Join(err, m.Close())
	}
	return m, r, nil
}
