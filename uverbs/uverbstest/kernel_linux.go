// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"slices"
	"sync"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// Kernel is a kernel with RDMA devices. Its methods may be called concurrently.
type Kernel struct {
	// Intercept, if not nil, is called with every request before it is executed. The request
	// fails with the error that Intercept returns. Intercept must be set before devices are
	// opened, and may be called concurrently.
	Intercept func(*uverbs.Request) error

	// ReuseNumbers assigns the number of the newest QP to the next QP after its destruction, as rxe of
	// Linux 5.10 does. It must be set before devices are opened.
	ReuseNumbers bool

	// NoSRQ makes devices without shared receive queues. It must be set before devices are opened.
	NoSRQ bool

	mu        sync.Mutex // guards all fields below
	devices   fakeuverbs.Devices
	contexts  map[*context]struct{} // all open contexts
	unplugged map[string]bool       // by device
	qps       map[uint32]*qp        // by number, of all devices
	lastQPN   uint32
	lastCQN   uint32 // of erdma
	serving   bool   // a goroutine serves the doorbells of erdma
	lastKey   uint32
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
)

// New returns a kernel with devices of rdma_rxe, which have these names.
func New(names ...string) *Kernel {
	return newKernel(fakeuverbs.NewDevices(abi.RDMA_DRIVER_RXE, 2, 0x0200_00ff_fe00_0000, names...))
}

// NewSIW returns a kernel with devices of siw, which have these names.
func NewSIW(names ...string) *Kernel {
	return newKernel(fakeuverbs.NewDevices(abi.RDMA_DRIVER_SIW, abi.SIW_ABI_VERSION, 0x0200_00ff_fe00_0000, names...))
}

// NewERDMA returns a kernel with devices of erdma, which have these names. While there are CQs, a goroutine polls
// for doorbells, which are no commands.
func NewERDMA(names ...string) *Kernel {
	return newKernel(fakeuverbs.NewDevices(abi.RDMA_DRIVER_ERDMA, abi.ERDMA_ABI_VERSION, 0x0200_00ff_fe00_0000, names...))
}

func newKernel(devices fakeuverbs.Devices) *Kernel {
	return &Kernel{
		contexts: make(map[*context]struct{}), unplugged: make(map[string]bool), qps: make(map[uint32]*qp), lastQPN: 16, lastKey: 0x1000,
		devices: devices,
	}
}

// Devices lists the devices.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices.Devices()
}

// Interfaces lists the network interfaces of the devices' ports. The first device has eth0 with
// 10.0.0.1.
func (k *Kernel) Interfaces() ([]uverbs.Interface, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices.Interfaces()
}

// Open opens a device.
func (k *Kernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, err := k.devices.Find(info)
	if err != nil {
		return nil, err
	}
	c := newContext(k, d)
	k.contexts[c] = struct{}{}
	return c, nil
}

// Opened returns the number of open contexts.
func (k *Kernel) Opened() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.contexts)
}

// Remove removes a device at once, as Linux 7.3 does. Its event files end, and requests to it
// fail with EIO, except requests that destroy objects. Remove reports whether the device
// existed.
func (k *Kernel) Remove(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		if c.Info.Name == name {
			c.Disassociate()
		}
	}
	return k.devices.Remove(name)
}

// Unplug disconnects a device from the network. Requests from it and to it fail with the status
// "retry counter exceeded", except requests to itself. Unplug reports whether the device was
// connected.
func (k *Kernel) Unplug(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	infos, _ := k.devices.Devices()
	was := !k.unplugged[name] && slices.ContainsFunc(infos, func(d uverbs.DeviceInfo) bool { return d.Name == name })
	k.unplugged[name] = true
	return was
}

// connected reports whether requests reach one device from another.
func (k *Kernel) connected(a, b string) bool { return a == b || !k.unplugged[a] && !k.unplugged[b] }

// FailQP moves a QP to the error state without a command, as a device does after a fault.
func (k *Kernel) FailQP(num uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.qps[num]; q != nil {
		q.toError()
	}
}
