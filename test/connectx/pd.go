// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// pd is a protection domain, which groups keys and queues.
type pd struct {
	n uint32
	users
}

// driverPD is the domain of queues without a domain from the driver. Linux uses such queues to
// change keys, and as receive queues that drop everything. They may use the keys of all
// domains. The domain always exists.
const driverPD = 0

var pdCommands = map[uint16]command{
	prm.OpAllocPD: {"ALLOC_PD", 16, 16, func(d *Device, in, out []byte) (err error) {
		p := new(pd)
		if p.n, err = d.pds.add(p); err == nil {
			prm.ObjectOut.Number.Set(out, uint64(p.n))
		}
		return err
	}},
	prm.OpDeallocPD: {"DEALLOC_PD", 16, 16, func(d *Device, in, out []byte) error {
		_, err := d.pds.remove(uint32(prm.ObjectIn.Number.Get(in)))
		return err
	}},
}
