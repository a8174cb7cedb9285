// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"slices"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// Kernel is a kernel with mlx5 devices. The fields must be set before devices are opened. The
// methods may be called concurrently.
type Kernel struct {
	// Intercept, if not nil, is called with every request before it is executed. The request
	// fails with the error that Intercept returns. It may be called concurrently.
	Intercept func(*uverbs.Request) error
	// Context, if not nil, changes the driver's part of the response to GET_CONTEXT, to
	// simulate another device or kernel.
	Context func(req *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp)
	// Device, if not nil, changes the attributes that devices report.
	Device func(attr *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, port *abi.UverbsQueryPortResp)
	// LegacyUAR simulates the register pages of a kernel older than 5.7. A program cannot
	// allocate pages. A context comes with pages that the program maps by number, and the
	// kernel assigns their registers.
	LegacyUAR bool
	// Hardware, if not nil, returns the hardware of an opened device. The hardware executes the
	// posted requests.
	Hardware func(uverbs.DeviceInfo) Hardware

	mu       sync.Mutex // guards all fields below
	devices  fakeuverbs.Devices
	contexts map[*context]struct{} // all open contexts

	qps  []*QP // of all contexts, in the order of their creation
	cqs  []*CQ
	srqs []*SRQ
	uars []*UAR

	// The numbers of objects that have been created.
	madeQPs, madeCQs, madeSRQs, madeUARs, madeKeys uint32
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
)

// New returns a kernel with devices of these names, for example "mlx5_0". The port of each
// device is active and has one GID of RoCE v2. The first device has 10.0.0.1.
func New(names ...string) *Kernel {
	return &Kernel{
		contexts: make(map[*context]struct{}),
		devices:  fakeuverbs.NewDevices(abi.RDMA_DRIVER_MLX5, abi.MLX5_IB_UVERBS_ABI_VERSION, 0x0002_c903_0000_0001, names...),
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

// QPs returns the existing queue pairs of all contexts, in the order of their creation.
func (k *Kernel) QPs() []*QP { return list(k, &k.qps) }

// CQs returns the existing completion queues of all contexts, in the order of their creation.
func (k *Kernel) CQs() []*CQ { return list(k, &k.cqs) }

// SRQs returns the existing shared receive queues of all contexts, in the order of their
// creation.
func (k *Kernel) SRQs() []*SRQ { return list(k, &k.srqs) }

// UARs returns the existing pages of doorbell registers of all contexts, in the order of their
// creation.
func (k *Kernel) UARs() []*UAR { return list(k, &k.uars) }

func list[T any](k *Kernel, all *[]T) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]T(nil), *all...)
}

// object is an object that a program creates and destroys.
type object interface {
	comparable
	use(n int)  // counts the object among the users of its parents
	busy() bool // reports whether other objects use it
	end()       // removes the object from the hardware, if there is any
}

// destroy removes an object from its context and from the list of all contexts.
func destroy[T object](own map[uint32]T, all *[]T, handle uint32) error {
	q, ok := own[handle]
	switch {
	case !ok:
		return syscall.ENOENT
	case q.busy():
		return syscall.EBUSY
	}
	q.end()
	q.use(-1)
	delete(own, handle)
	remove(all, q)
	return nil
}

// remove removes one object from a list of existing objects.
func remove[T comparable](all *[]T, one T) {
	if i := slices.Index(*all, one); i >= 0 {
		*all = slices.Delete(slices.Clone(*all), i, i+1)
	}
}

// newKeys assigns the keys of a memory region or window.
func (k *Kernel) newKeys() (lkey, rkey uint32) {
	key := 0x00a1b233 + 0x10100*k.madeKeys
	k.madeKeys++
	return key, key
}

// context is one open device file.
type context struct {
	*fakeuverbs.Context
	k    *Kernel
	own  abi.Mlx5QueryDeviceResp
	resp abi.Mlx5AllocUcontextResp
	// dynamic reports whether the program allocates its register pages. It does so if it has
	// requested this and the kernel supports it.
	dynamic bool

	qps  map[uint32]*QP // by handle
	cqs  map[uint32]*CQ
	srqs map[uint32]*SRQ
	uars map[uint32]*UAR
}

func newContext(k *Kernel, info uverbs.DeviceInfo) *context {
	c := &context{
		Context: fakeuverbs.New(info, &k.mu, k.Intercept),
		k:       k,
		qps:     make(map[uint32]*QP),
		cqs:     make(map[uint32]*CQ),
		srqs:    make(map[uint32]*SRQ),
		uars:    make(map[uint32]*UAR),
	}
	c.Keys = k.newKeys
	if k.Hardware != nil {
		c.Context.Hardware = k.Hardware(info)
		c.OnUnmap = c.unmapped
	}
	c.OnClose = c.close
	c.handleContext()
	c.handleUAR()
	c.handleCQ()
	c.handleQP()
	c.handleSRQ()
	return c
}

// close removes all objects, so that the device no longer accesses their memory.
func (c *context) close() {
	c.endQueues()
	delete(c.k.contexts, c)
	for _, q := range c.qps {
		remove(&c.k.qps, q)
	}
	for _, q := range c.cqs {
		remove(&c.k.cqs, q)
	}
	for _, q := range c.srqs {
		remove(&c.k.srqs, q)
	}
	for _, u := range c.uars {
		remove(&c.k.uars, u)
	}
}
