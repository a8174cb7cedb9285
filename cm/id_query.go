// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// bindDevice asks the kernel for the ID's addresses and device, and opens the
// device.
func (id *ID) bindDevice() error {
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		resp, err := f.QueryAddr(kid)
		if err != nil {
			return err
		}
		var dev *verbs.Device
		if resp.PortNum != 0 {
			// The kernel hands the GUID over in network byte order.
			var guid [8]byte
			binary.NativeEndian.PutUint64(guid[:], resp.NodeGUID)
			dev, err = verbsInternal.OpenIndex(id.Channel().host, int(resp.IBDevIndex), binary.BigEndian.Uint64(guid[:]))
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(resp)
		id.dev, dev = dev, id.dev
		if dev != nil {
			dev.Close()
		}
		return err
	})
}

// queryAddrs notes the ID's addresses.
func (id *ID) queryAddrs() error {
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		resp, err := f.QueryAddr(kid)
		if err != nil {
			return err
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(resp)
		return nil
	})
}

// setAddrs notes what the kernel tells. The caller holds id.mu.
func (id *ID) setAddrs(resp *abi.UcmQueryAddrResp) {
	id.local = addrFromKernel(&resp.SrcAddr)
	if id.remote = addrFromKernel(&resp.DstAddr); id.remote.Addr().IsUnspecified() {
		id.remote = Addr{} // the kernel's way to say that there is none
	}
	for _, t := range id.pending {
		t.to = Addr{}
	}
	id.port = resp.PortNum
}
