// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// Kernel is a kernel with RDMA devices. Its methods may be called concurrently.
type Kernel struct {
	// Intercept, if not nil, sees every request before it is carried out, and
	// refuses it by returning an error. It must be set before devices are
	// opened, and may be called concurrently.
	Intercept func(*uverbs.Request) error

	mu      sync.Mutex
	devices []uverbs.DeviceInfo
	qps     map[uint32]*qp // by number, of all devices
	lastQPN uint32
	lastKey uint32
	open    int
}

var _ uverbs.Kernel = (*Kernel)(nil)

// New returns a kernel with devices of these names.
func New(names ...string) *Kernel {
	k := &Kernel{qps: make(map[uint32]*qp), lastQPN: 16, lastKey: 0x1000}
	for i, name := range names {
		k.devices = append(k.devices, uverbs.DeviceInfo{
			Name:       name,
			Index:      i,
			Node:       fmt.Sprintf("/dev/infiniband/uverbs%d", i),
			DriverID:   abi.RDMA_DRIVER_RXE,
			ABIVersion: 2,
			NodeGUID:   0x0200_00ff_fe00_0000 + uint64(i),
			NodeType:   uverbs.NodeCA,
		})
	}
	return k
}

// Devices lists the devices.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]uverbs.DeviceInfo(nil), k.devices...), nil
}

// Open opens a device.
func (k *Kernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.devices {
		if d.Node == info.Node {
			k.open++
			return newContext(k, d), nil
		}
	}
	return nil, syscall.ENOENT
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
