// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "purerdma/uverbs"

// Event sends an asynchronous event to the contexts that it concerns. An event of a port or of
// the device goes to all contexts. An event of an object goes to the context that created the
// object. Element is the port or the user handle of the object.
func (k *Kernel) Event(typ uverbs.EventType, element uint64) { k.EventOf("", typ, element) }

// EventOf sends an event to the contexts of one device.
func (k *Kernel) EventOf(device string, typ uverbs.EventType, element uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		if (device == "" || device == c.Info.Name) && c.concerns(typ, element) {
			c.Event(typ, element)
		}
	}
}

// Remove removes a device while programs use it, as a driver does after its card was pulled.
// The programs get an event, and from then on their files return EIO. Remove reports whether
// the device existed.
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

// concerns reports whether an event is for the context.
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
