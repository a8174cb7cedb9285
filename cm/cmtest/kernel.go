// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/ucma"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// Kernel is a kernel with a connection manager. Set it as the field Kernel of a verbs.Host, or
// use [Kernel.Host]. Its methods may be called concurrently.
type Kernel struct {
	// Retry is the time after which an unanswered message is repeated. 0 means 10 ms. The
	// sender stops after 16 attempts. Linux waits 4 seconds or more each time. Retry must not
	// change once the Kernel is in use.
	Retry time.Duration

	verbs     uverbs.Kernel
	onCommand atomic.Pointer[func(Command) error]

	mu        sync.Mutex // guards all fields below
	onMessage func(Message) (Fate, time.Duration)
	devices   []*device
	ids       map[uint32]*id
	groups    map[uint32]*group
	files     map[int]*file
	lastPort  uint16
	lastPSN   uint32
}

var (
	_ uverbs.Kernel     = (*Kernel)(nil)
	_ uverbs.Interfaces = (*Kernel)(nil)
	_ ucma.Kernel       = (*Kernel)(nil)
)

// New returns a Kernel with the devices of another kernel. That kernel must not add devices
// later. If devices is a uverbs.Interfaces, a device has the addresses of its network
// interface. Otherwise the first device has the address 10.0.0.1, the second has 10.0.0.2, and
// so on.
func New(devices uverbs.Kernel) *Kernel {
	k := &Kernel{verbs: devices, ids: map[uint32]*id{}, groups: map[uint32]*group{}, files: map[int]*file{}, lastPort: firstPort - 1}
	infos, _ := devices.Devices()
	var ifs []uverbs.Interface
	if i, ok := devices.(uverbs.Interfaces); ok {
		ifs, _ = i.Interfaces()
	}
	for i, info := range infos {
		d := &device{info: info, addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}}
		if i < len(ifs) {
			d.addrs = ifs[i].Addrs
		}
		k.devices = append(k.devices, d)
	}
	return k
}

// Host returns a new verbs.Host on this Kernel with the drivers of verbs.DefaultHost. Two
// Hosts share only the network, like two processes.
func (k *Kernel) Host() *verbs.Host {
	return &verbs.Host{Drivers: verbs.DefaultHost().Drivers, Kernel: k}
}

// Left lists the objects that programs have not closed. These are open files of the connection
// manager, IDs, multicast memberships, and open devices.
func (k *Kernel) Left() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var left []string
	for _, fd := range slices.Sorted(maps.Keys(k.files)) {
		left = append(left, fmt.Sprintf("rdma_cm file %d", fd))
	}
	for _, id := range k.sorted() {
		left = append(left, id.String())
	}
	for _, num := range slices.Sorted(maps.Keys(k.groups)) {
		left = append(left, fmt.Sprintf("membership %d", num))
	}
	for _, d := range k.devices {
		if d.opened > 0 {
			left = append(left, fmt.Sprintf("device %s, opened %d times", d.info.Name, d.opened))
		}
	}
	return left
}

// sorted returns the IDs by number.
func (k *Kernel) sorted() []*id {
	return slices.SortedFunc(maps.Values(k.ids), func(a, b *id) int { return cmp.Compare(a.num, b.num) })
}
