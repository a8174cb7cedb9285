// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"purerdma/verbs"
)

// heldDevices keeps the devices open through which a listener's requests have come. Otherwise
// a request that is refused while there is no connection would open the device and close it
// again. One message of a stranger would then cost several commands of the driver.
//
// The removal of a device may wait until all programs have closed it. A listener does not get
// the event of a removal while no goroutine calls Accept, or if it is bound to no device.
// Therefore each device has an ID bound to it, on a channel that a goroutine reads.
type heldDevices struct {
	host  *verbs.Host
	netNS string

	mu     sync.Mutex
	ch     *EventChannel // nil before the first request
	ids    []*ID         // one for each device
	closed bool
}

// hold keeps the device of a connect request open. It may fail to do so, for example if the
// process is out of descriptors. The next request then tries again.
func (h *heldDevices) hold(request *ID) {
	dev := request.Device()
	if dev == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || slices.ContainsFunc(h.ids, func(id *ID) bool { return dev.Same(id.Device()) }) {
		return
	}
	if h.ch == nil {
		ch, err := NewEventChannel(h.host)
		if err != nil {
			return
		}
		h.ch = ch
		go h.watch(ch)
	}
	id, err := h.ch.NewID(IDConfig{PortSpace: request.ps, QPType: request.qpType, NetNS: h.netNS})
	if err != nil {
		return
	}
	if err := id.Bind(withScope(dev, withAnyPort(request.LocalAddr()))); err != nil || !dev.Same(id.Device()) {
		id.Close()
		return
	}
	h.ids = append(h.ids, id)
}

// withAnyPort returns an address with a port that the kernel chooses.
func withAnyPort(a Addr) Addr {
	if a.isIB() {
		a.IB.ServiceID &^= ibPortMask
		a.IB.ServiceIDMask &^= ibPortMask
		return a
	}
	return AddrFrom(netip.AddrPortFrom(a.Addr(), 0))
}

// withScope adds its interface to a link-local address of dev. The kernel binds to no link-local
// address without one, and the local address of a request has none (cma_save_ip6_info). The GID
// table of RoCE has it. If several interfaces of dev have the address, any of them leads to dev.
func withScope(dev *verbs.Device, a Addr) Addr {
	if withoutZone(a) == "" {
		return a
	}
	gids, err := dev.GIDs()
	if err != nil {
		return a
	}
	gid := verbs.GID(a.Addr().As16())
	i := slices.IndexFunc(gids, func(e verbs.GIDEntry) bool { return e.GID == gid && e.Ifindex != 0 })
	if i < 0 {
		return a
	}
	return AddrFrom(netip.AddrPortFrom(a.Addr().WithZone(strconv.Itoa(gids[i].Ifindex)), a.AddrPort.Port()))
}

// watch lets go of a device when it is removed, until the channel is closed.
func (h *heldDevices) watch(ch *EventChannel) {
	for ev, err := range ch.Events(context.Background()) {
		if err != nil {
			return
		}
		ev.Ack()
		if ev.Type != EventDeviceRemoval {
			continue
		}
		h.mu.Lock()
		h.ids = slices.DeleteFunc(h.ids, func(id *ID) bool { return id == ev.ID })
		h.mu.Unlock()
		ev.ID.Close()
	}
}

// close lets go of all devices.
func (h *heldDevices) close() error {
	h.mu.Lock()
	ch := h.ch
	h.closed, h.ch, h.ids = true, nil, nil
	h.mu.Unlock()
	if ch == nil {
		return nil
	}
	return ch.Close()
}
