// SPDX-License-Identifier: Apache-2.0

package connectx

import "sync"

// Fabric is what ports are connected to: a switch that loses nothing unless it is
// told to. It holds the lock of its devices.
type Fabric struct {
	mu         sync.Mutex
	devices    []*Device
	joined     int         // how many devices there ever were
	interrupts []interrupt // to be given when the lock is released
	given      []interrupt // memory for them
	holders    []holder    // of completions, to be written when the lock is released
	pace       float64     // how many times as fast as it should time goes by
	work       uint64      // bytes that were moved, and what took as long as some
	faults
}

// interrupt is one that waits for the release of the lock.
type interrupt struct {
	d      *Device
	vector int
}

// NewFabric makes a fabric without devices.
func NewFabric() *Fabric { return &Fabric{pace: 1} }

// SetPace has the time of transports, which is that of timeouts and retries, go by n
// times as fast as it should, from the next timer on.
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

// Lock keeps the devices from doing anything, until Unlock. Who changes what their
// memories have holds it meanwhile.
func (f *Fabric) Lock() { f.lock() }

// Unlock lets the devices go on.
func (f *Fabric) Unlock() { f.unlock() }

// leave disconnects a device: nothing reaches it any more.
func (f *Fabric) leave(d *Device) {
	f.lock()
	defer f.unlock()
	f.devices = without(f.devices, d)
}

func (f *Fabric) lock() { f.mu.Lock() }

// unlock releases the lock and gives the interrupts that came up under it.
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
