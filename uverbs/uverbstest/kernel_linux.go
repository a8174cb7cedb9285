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
	// Intercept, if not nil, sees every request before it is carried out, and
	// refuses it by returning an error. It must be set before devices are
	// opened, and may be called concurrently.
	Intercept func(*uverbs.Request) error

	mu        sync.Mutex // of everything below
	devices   fakeuverbs.Devices
	contexts  map[*context]struct{} // that are open
	unplugged map[string]bool       // by device
	qps       map[uint32]*qp        // by number, of all devices
	lastQPN   uint32
	lastKey   uint32
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
)

// New returns a kernel with devices of these names.
func New(names ...string) *Kernel {
	return &Kernel{
		contexts: make(map[*context]struct{}), unplugged: make(map[string]bool), qps: make(map[uint32]*qp), lastQPN: 16, lastKey: 0x1000,
		devices: fakeuverbs.NewDevices(abi.RDMA_DRIVER_RXE, 2, 0x0200_00ff_fe00_0000, names...),
	}
}

// Devices lists the devices.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices.Devices()
}

// Interfaces lists the network interfaces of their ports: eth0 with 10.0.0.1 for the
// first.
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

// Opened returns how many contexts are open now.
func (k *Kernel) Opened() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.contexts)
}

// Remove takes a device away from programs at once, as Linux 7.3 does: their event files
// end, and what they ask for fails with EIO but for destroying objects. It returns whether
// there was such a device.
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

// Unplug cuts a device off the network: requests from it and to it fail with the status
// "retry counter exceeded", those to itself excepted. It returns whether it was connected.
func (k *Kernel) Unplug(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	infos, _ := k.devices.Devices()
	was := !k.unplugged[name] && slices.ContainsFunc(infos, func(d uverbs.DeviceInfo) bool { return d.Name == name })
	k.unplugged[name] = true
	return was
}

// connected reports whether requests get from one device to another.
func (k *Kernel) connected(a, b string) bool { return a == b || !k.unplugged[a] && !k.unplugged[b] }

// FailQP moves a QP to the error state by itself, as a device does after a fault.
func (k *Kernel) FailQP(num uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q := k.qps[num]; q != nil {
		q.toError()
	}
}
