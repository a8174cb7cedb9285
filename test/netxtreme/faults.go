// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"errors"
	"fmt"

	"purerdma/test/pci"
)

// faults maps each fault to the names of its numbers.
var faults = map[string]string{
	// The cable is pulled and plugged in.
	"port-down": "",
	"port-up":   "",
	// 1 loses all RDMA messages of the device, also its answers. 0 ends that.
	"silent": "YES",
	// 1 while the driver of the device is being removed. Doorbells of destroyed queues are then no violations.
	"removing": "YES",
	// That many doorbells are in the FIFO of doorbells.
	"doorbells": "ENTRIES",
	// The QP's next request fails with a status of roce_hsi.h.
	"fail-next": "QPN STATUS",
	// The QP fails with an event.
	"fail-qp": "QPN",
}

// Fault implements pci.Fabric.
func (f *Fabric) Fault(name, fault string, args []string) error {
	a, err := pci.FaultNumbers(faults, fault, args)
	if err != nil {
		return err
	}
	f.Lock()
	defer f.Unlock()
	var d *Device
	for _, o := range f.devices {
		if o.o.Name == name {
			d = o
		}
	}
	if d == nil {
		return errors.New("no such device")
	}
	switch fault {
	case "port-down", "port-up":
		d.changePort(fault == "port-down")
		return nil
	case "silent":
		d.silent = a[0] != 0
		return nil
	case "removing":
		d.removing = a[0] != 0
		return nil
	}
	if fault == "doorbells" {
		if a[0] >= d.fifoDepth() {
			return fmt.Errorf("the FIFO has %d entries", d.fifoDepth())
		}
		d.waiting = a[0]
		return nil
	}
	q := d.qps[a[0]]
	switch {
	case q == nil || q.state != stateRTS:
		return fmt.Errorf("no QP %#x in RTS", a[0])
	case fault == "fail-qp":
		q.fail(reasonMemory, 0)
	case a[1] == statusOK || a[1] > statusRetries:
		return fmt.Errorf("no status %d of an error", a[1])
	default:
		q.failNext = uint8(a[1])
	}
	return nil
}

// changePort changes the state of the link, with an event.
func (d *Device) changePort(down bool) {
	if d.down == down {
		return
	}
	d.down = down
	n := d.nqs[d.asyncRing]
	if n == nil {
		return
	}
	const linkStatus = 0x0
	var e [entrySize]byte
	le.PutUint16(e[:], notifyAsync)
	le.PutUint16(e[2:], linkStatus)
	if !down {
		le.PutUint32(e[12:], 1)
	}
	n.notify(e)
}
