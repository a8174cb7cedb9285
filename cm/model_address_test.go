// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"syscall"

	"purerdma/abi"
)

// modelAddrs holds the addresses of the devices, and as the last one the unspecified address.
var modelAddrs = []Addr{mustAddr("10.8.0.1:7"), mustAddr("10.8.1.1:7"), mustAddr("0.0.0.0:7")}

// bind implements BIND.
func (k *modelKernel) bind(id *modelID, sa abi.SockaddrStorage) error {
	dev := noDevice
	for i, a := range modelAddrs[:len(k.unplug)] {
		if addrFromKernel(&sa).Addr() == a.Addr() {
			dev = i
		}
	}
	if dev != noDevice && k.unplug[dev] {
		return syscall.ENODEV
	}
	id.dev = dev
	k.to(id, modelBound)
	return nil
}

// device returns a random present device, or noDevice if there is none.
func (k *modelKernel) device() int {
	n := k.rnd.IntN(len(k.unplug))
	for range k.unplug {
		if !k.unplug[n] {
			return n
		}
		n = (n + 1) % len(k.unplug)
	}
	return noDevice
}

// resolveAddr implements RESOLVE_ADDR. It binds an ID without a device to one.
func (k *modelKernel) resolveAddr(id *modelID) {
	k.to(id, modelAddrQuery)
	k.later(func() {
		dev := id.dev
		if dev == noDevice {
			dev = k.device()
		}
		switch {
		case id.gone || id.state != modelAddrQuery:
		case dev == noDevice:
			k.to(id, modelBound)
			k.tell(id, EventAddrError, -int(syscall.ENODEV))
		case k.rnd.IntN(5) == 0:
			k.to(id, modelBound)
			k.tell(id, EventAddrError, -int(syscall.ETIMEDOUT))
		default:
			id.dev = dev
			k.to(id, modelAddrResolved)
			k.tell(id, EventAddrResolved, 0)
		}
	})
}

// resolveRoute implements RESOLVE_ROUTE.
func (k *modelKernel) resolveRoute(id *modelID) {
	k.to(id, modelRouteQuery)
	k.later(func() {
		switch {
		case id.gone || id.state != modelRouteQuery:
		case k.rnd.IntN(5) == 0:
			k.to(id, modelAddrResolved)
			k.tell(id, EventRouteError, -int(syscall.ETIMEDOUT))
		default:
			k.to(id, modelRouteResolved)
			k.tell(id, EventRouteResolved, 0)
		}
	})
}
