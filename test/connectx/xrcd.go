// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// xrcd is an XRC domain, which groups shared receive queues of XRC and the QPs that fill them.
type xrcd struct {
	n uint32
	users
}

var xrcdCommands = map[uint16]command{
	prm.OpAllocXRCD: {"ALLOC_XRCD", 16, 16, func(d *Device, in, out []byte) (err error) {
		x := new(xrcd)
		if x.n, err = d.xrcds.add(x); err == nil {
			prm.ObjectOut.Number.Set(out, uint64(x.n))
		}
		return err
	}},
	prm.OpDeallocXRCD: {"DEALLOC_XRCD", 16, 16, func(d *Device, in, out []byte) error {
		_, err := d.xrcds.remove(uint32(prm.ObjectIn.Number.Get(in)))
		return err
	}},
}
