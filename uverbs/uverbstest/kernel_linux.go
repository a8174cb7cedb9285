// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"sync"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// Kernel is a kernel with RDMA devices. Its methods may be called concurrently.
type Kernel struct {
	// Intercept, if not nil, sees every request before it is carried out, and
	// refuses it by returning an error. It must be set before devices are
	// opened, and may be called concurrently.
	Intercept func(*uverbs.Request) error

	devices fakeuverbs.Devices

	mu      sync.Mutex     // of everything below
	qps     map[uint32]*qp // by number, of all devices
	lastQPN uint32
	lastKey uint32
	open    int
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
)

// New returns a kernel with devices of these names.
func New(names ...string) *Kernel {
	return &Kernel{
		qps: make(map[uint32]*qp), lastQPN: 16, lastKey: 0x1000,
		devices: fakeuverbs.NewDevices(abi.RDMA_DRIVER_RXE, 2, 0x0200_00ff_fe00_0000, names...),
	}
}

// Devices lists the devices.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) { return k.devices.Devices() }

// Interfaces lists the network interfaces of their ports: eth0 with 10.0.0.1 for the
// first.
func (k *Kernel) Interfaces() ([]uverbs.Interface, error) { return k.devices.Interfaces() }

// Open opens a device.
func (k *Kernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	d, err := k.devices.Find(info)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open++
	return newContext(k, d), nil
}

// Opened returns how many contexts are open now.
func (k *Kernel) Opened() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open
}

// FailQP moves a QP to the error state by itself, as a device does after a fault.
func (k *Kernel) FailQP(num uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.qps[num]; q != nil {
		q.toError()
	}
}
