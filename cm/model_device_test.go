// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import "syscall"

// remove takes a device away: who has asked for events is told, and every ID on it
// is good for nothing but DESTROY_ID. One that listens on all devices goes on.
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

// hint tells an ID something that changes nothing: that its network device has another
// address, or on a connection that its neighbour has.
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
