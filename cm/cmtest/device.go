// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"net/netip"
	"slices"
	"sync"

	"purerdma/abi"
	"purerdma/uverbs"
)

// device is an RDMA device with a port on the network.
type device struct {
	info      uverbs.DeviceInfo
	addrs     []netip.Addr
	opened    int
	removed   bool
	unplugged bool
}

// Devices lists the devices.
func (k *Kernel) Devices() ([]uverbs.DeviceInfo, error) { return k.verbs.Devices() }

// Interfaces lists the network interfaces of the devices' ports.
func (k *Kernel) Interfaces() ([]uverbs.Interface, error) {
	if i, ok := k.verbs.(uverbs.Interfaces); ok {
		return i.Interfaces()
	}
	infos, err := k.verbs.Devices()
	var ifs []uverbs.Interface
	for _, info := range infos {
		if d := k.named(info.Name); d != nil {
			ifs = append(ifs, uverbs.Interface{Index: info.Index + 1, Name: "eth-" + info.Name, Addrs: d.addrs})
		}
	}
	return ifs, err
}

// Open opens the verbs character device of a device.
func (k *Kernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	if err := k.ask(Command{Device: info.Name, Name: "open"}); err != nil {
		return nil, err
	}
	t, err := k.verbs.Open(info)
	if err != nil {
		return nil, err
	}
	k.count(info.Name, 1)
	return &transport{Transport: t, k: k, name: info.Name}, nil
}

// count adds n to the number of times that the device is open. n is 1 or -1.
func (k *Kernel) count(name string, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.named(name); d != nil {
		d.opened += n
	}
}

// transport is an open verbs character device. OnCommand intercepts its commands.
type transport struct {
	uverbs.Transport
	k      *Kernel
	name   string
	closed sync.Once
}

func (t *transport) Ioctl(req *uverbs.Request) error {
	if err := t.k.ask(Command{Device: t.name, Name: req.Name()}); err != nil {
		return err
	}
	return t.Transport.Ioctl(req)
}

func (t *transport) Write(cmd []byte) error {
	name := "write"
	if len(cmd) >= abi.Size[abi.UverbsCmdHdr]() {
		if c := uverbs.CommandOf(abi.View[abi.UverbsCmdHdr](cmd).Command); c != nil {
			name = c.String()
		}
	}
	if err := t.k.ask(Command{Device: t.name, Name: name}); err != nil {
		return err
	}
	return t.Transport.Write(cmd)
}

func (t *transport) Mmap(offset int64, length int) ([]byte, error) {
	if err := t.k.ask(Command{Device: t.name, Name: "mmap"}); err != nil {
		return nil, err
	}
	return t.Transport.Mmap(offset, length)
}

func (t *transport) Close() error {
	t.closed.Do(func() { t.k.count(t.name, -1) })
	return t.Transport.Close()
}

// named returns the device with a name, nil if there is none.
func (k *Kernel) named(name string) *device {
	i := slices.IndexFunc(k.devices, func(d *device) bool { return d.info.Name == name })
	if i < 0 {
		return nil
	}
	return k.devices[i]
}

// with returns the device with an address, nil if there is none. It ignores the zone, because all
// devices are on one network.
func (k *Kernel) with(addr netip.Addr) *device {
	addr = addr.Unmap().WithZone("")
	i := slices.IndexFunc(k.devices, func(d *device) bool { return !d.removed && slices.Contains(d.addrs, addr) })
	if i < 0 {
		return nil
	}
	return k.devices[i]
}

// Remove removes a device. Its IDs get DEVICE_REMOVAL. From then on every command on them
// except DESTROY_ID fails with ENXIO. The peers of the IDs are disconnected. If the Kernel
// given to New has a method Remove(name), Remove calls it to remove the device from the
// programs that have it open. Remove returns false if there is no such device, or if it has
// been removed before.
func (k *Kernel) Remove(name string) bool {
	k.mu.Lock()
	d := k.named(name)
	if d == nil || d.removed {
		k.mu.Unlock()
		return false
	}
	d.removed = true
	for _, id := range k.sorted() {
		if id.dev == d && !id.gone {
			k.hangUp(id)
			k.to(id, removed)
			k.tell(id, abi.RDMA_CM_EVENT_DEVICE_REMOVAL, 0)
		}
	}
	k.mu.Unlock()
	if r, ok := k.verbs.(interface{ Remove(string) bool }); ok {
		r.Remove(name)
	}
	return true
}

// Unplug disconnects a device from the network without notice, like a machine that has lost
// its power. From now on no message of the connection manager reaches the device or leaves it.
// If the Kernel given to New has a method Unplug(name), Unplug calls it to stop data as well
// as messages. An inprocess.Kernel has no such method. Use its Fabric to stop data. Unplug
// returns false if there is no such device, or if it has been unplugged before.
func (k *Kernel) Unplug(name string) bool {
	k.mu.Lock()
	d := k.named(name)
	if d == nil || d.unplugged {
		k.mu.Unlock()
		return false
	}
	d.unplugged = true
	for _, id := range k.sorted() {
		if id.peer != nil && id.dev != id.peer.dev && (id.dev == d || id.peer.dev == d) {
			k.outwait(id)
		}
	}
	k.mu.Unlock()
	if u, ok := k.verbs.(interface{ Unplug(string) bool }); ok {
		u.Unplug(name)
	}
	return true
}
