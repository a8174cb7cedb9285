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

// Kernel is a kernel with mlx5 devices. The fields must be set before devices are
// opened; the methods may be called concurrently.
type Kernel struct {
	// Intercept, if not nil, sees every request before it is carried out, and
	// refuses it by returning an error. It may be called concurrently.
	Intercept func(*uverbs.Request) error
	// Context, if not nil, changes the driver's answer of GET_CONTEXT, as for
	// another device or kernel.
	Context func(req *abi.Mlx5AllocUcontextReqV2, resp *abi.Mlx5AllocUcontextResp)
	// Device, if not nil, changes what devices say of themselves.
	Device func(attr *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, port *abi.UverbsQueryPortResp)
	// LegacyUAR makes it a kernel older than 5.7 as far as register pages go: it
	// has none to allocate, and a context comes with pages that are mapped by
	// number and shared out by the kernel.
	LegacyUAR bool
	// Hardware, if not nil, returns the device behind one that is opened, which
	// then carries out what is posted.
	Hardware func(uverbs.DeviceInfo) Hardware

	mu       sync.Mutex // of everything below
	devices  fakeuverbs.Devices
	contexts map[*context]struct{} // that are open

	qps  []*QP // of all contexts, in the order of their creation
	cqs  []*CQ
	srqs []*SRQ
	uars []*UAR

	// How many there have been.
	madeQPs, madeCQs, madeSRQs, madeUARs, madeKeys uint32
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
)

// New returns a kernel with devices of these names, as "mlx5_0". The port of each
// is active and has one GID of RoCE v2, 10.0.0.1 for the first.
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

// QPs returns the queue pairs that there are, of all contexts, in the order in
// which they were made.
func (k *Kernel) QPs() []*QP { return list(k, &k.qps) }

// CQs is QPs for completion queues.
func (k *Kernel) CQs() []*CQ { return list(k, &k.cqs) }

// SRQs is QPs for shared receive queues.
func (k *Kernel) SRQs() []*SRQ { return list(k, &k.srqs) }

// UARs is QPs for pages of doorbell registers.
func (k *Kernel) UARs() []*UAR { return list(k, &k.uars) }

func list[T any](k *Kernel, all *[]T) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]T(nil), *all...)
}

// object is what a program makes and destroys.
type object interface {
	comparable
	use(n int)  // counts it among the users of what it belongs to
	busy() bool // others use it
	end()       // takes it back from the hardware, if there is some
}

// destroy takes an object out of those of its context and of all contexts.
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

// remove takes an object out of a list of those that there are.
func remove[T comparable](all *[]T, one T) {
	if i := slices.Index(*all, one); i >= 0 {
		*all = slices.Delete(slices.Clone(*all), i, i+1)
	}
}

// newKeys gives a memory region or window its keys.
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
	// dynamic says that the program allocates its register pages, which it
	// does if it said so and the kernel can.
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

// close forgets all objects: the device no longer looks at their memory.
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
