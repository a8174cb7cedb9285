// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "purerdma/uverbs"

// Event gives an asynchronous event to the contexts that it concerns: one of a port
// or the device to all, one of an object to that which made it. Element is the port
// or the user handle of the object.
func (k *Kernel) Event(typ uverbs.EventType, element uint64) { k.EventOf("", typ, element) }

// EventOf is Event for the contexts of one device.
func (k *Kernel) EventOf(device string, typ uverbs.EventType, element uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		if (device == "" || device == c.Info.Name) && c.concerns(typ, element) {
			c.Event(typ, element)
		}
	}
}

// Remove takes a device away under the programs that use it, as a driver does whose card
// was pulled: they get an event, and from then on their files give EIO. It returns whether
// there was such a device.
func (k *Kernel) Remove(device string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		if c.Info.Name == device {
			c.Disassociate()
		}
	}
	return k.devices.Remove(device)
}

// concerns says whether an event is the context's.
func (c *context) concerns(typ uverbs.EventType, element uint64) bool {
	switch typ.Element() {
	case uverbs.ElementQP:
		for _, q := range c.qps {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	case uverbs.ElementCQ:
		for _, q := range c.cqs {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	case uverbs.ElementSRQ:
		for _, q := range c.srqs {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	}
	return true
}
