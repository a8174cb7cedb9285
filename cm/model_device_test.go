// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import "syscall"

// remove removes a device. IDs on the device get DEVICE_REMOVAL, and then accept only
// DESTROY_ID. A listener on all devices keeps working.
func (k *modelKernel) remove(dev int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unplug[dev] = true
	for _, id := range k.all() {
		if id.dev == dev && id.state != modelRemoved {
			k.hangUp(id)
			k.to(id, modelRemoved)
			k.tell(id, EventDeviceRemoval, 0)
		}
	}
}

// hint sends an ID an event that changes no state. It reports a new address of the network
// device. On a connection it may report a new address of the neighbour instead.
func (k *modelKernel) hint(id *modelID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case id.dev == noDevice || id.state == modelRemoved:
	case id.state == modelEstablished && k.rnd.IntN(2) == 0:
		k.tell(id, EventUnreachable, -int(syscall.ETIMEDOUT))
	default:
		k.tell(id, EventAddrChange, 0)
	}
}
