// SPDX-License-Identifier: Apache-2.0

package connectx

import "sync"

// Fabric connects ports like a switch. It loses messages only if configured to do so. It has
// the lock of its devices.
type Fabric struct {
	mu         sync.Mutex
	devices    []*Device
	joined     int         // number of devices so far.
	interrupts []interrupt // interrupts to deliver when the lock is released.
	given      []interrupt // buffer for the delivery
	holders    []holder    // queues with completions to write when the lock is released.
	pace       float64     // speed factor of transport time
	work       uint64      // moved bytes, and other work converted to bytes
	faults
}

// interrupt is an interrupt that waits for the release of the lock.
type interrupt struct {
	d      *Device
	vector int
}

// NewFabric creates a fabric without devices.
func NewFabric() *Fabric { return &Fabric{pace: 1} }

// SetPace accelerates the time of transports by a factor n, from the next timer on. This
// affects timeouts and retries.
func (f *Fabric) SetPace(n float64) {
	f.lock()
	defer f.unlock()
	f.pace = n
}

func (f *Fabric) join(d *Device) {
	f.lock()
	defer f.unlock()
	f.devices = append(f.devices, d)
	if f.joined++; d.mac == [6]byte{} {
		d.mac = [6]byte{0x52, 0x54, 0x00, 0x0a, byte(f.joined >> 8), byte(f.joined)}
	}
}

// Lock stops the devices until Unlock. Hold it while changing the mappings of their memories.
func (f *Fabric) Lock() { f.lock() }

// Unlock lets the devices continue.
func (f *Fabric) Unlock() { f.unlock() }

// leave disconnects a device. It no longer receives messages.
func (f *Fabric) leave(d *Device) {
	f.lock()
	defer f.unlock()
	f.devices = without(f.devices, d)
}

func (f *Fabric) lock() { f.mu.Lock() }

// unlock releases the lock and delivers the pending interrupts.
func (f *Fabric) unlock() {
	f.flushHeld()
	if len(f.interrupts) == 0 {
		f.mu.Unlock()
		return
	}
	pending := f.interrupts
	f.interrupts, f.given = f.given, nil
	f.mu.Unlock()
	for _, i := range pending {
		i.d.cfg.Interrupt(i.vector)
	}
	f.mu.Lock()
	f.given = pending[:0]
	f.mu.Unlock()
}
