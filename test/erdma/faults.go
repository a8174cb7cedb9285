// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"fmt"

	"purerdma/test/pci"
)

// faults maps each fault to the names of its numbers.
var faults = map[string]string{
	"silent":    "YES",        // 1: requests to and from the device wait; 0: no longer
	"fail-next": "QPN STATUS", // the QP's next request fails with a status of erdma_hw.h
	"fail-qp":   "QPN",        // the connection of the QP ends with events
}

// Fault implements pci.Fabric.
func (f *Fabric) Fault(name, fault string, args []string) error {
	d := f.devices[name]
	if d == nil {
		return errors.New("no such device")
	}
	a, err := pci.FaultNumbers(faults, fault, args)
	if err != nil {
		return err
	}
	f.Lock()
	defer f.Unlock()
	if fault == "silent" {
		d.silent = a[0] != 0
		for _, q := range d.qps {
			q.resume()
		}
		return nil
	}
	q := d.qps[a[0]]
	switch {
	case q == nil || q.peer == nil:
		return fmt.Errorf("no connected QP %#x", a[0])
	case fault == "fail-qp":
		q.terminate(eventQPFatal)
	case a[1] == uint32(statusOK) || a[1] > uint32(statusRetries):
		return fmt.Errorf("no status %d of an error", a[1])
	default:
		q.failNext = status(a[1])
	}
	return nil
}

// resume executes the requests of both ends that have waited for a silent device.
func (q *qp) resume() {
	if p := q.peer; p != nil {
		p.run()
	}
	q.run()
}
