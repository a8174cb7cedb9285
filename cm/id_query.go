// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"encoding/binary"
	"sync"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// addrsPool has the memory of queries: each accepted connection makes one.
var addrsPool = sync.Pool{New: func() any { return new(ucma.Addrs) }}

// bindDevice asks the kernel for the ID's addresses and device, and opens the
// device.
func (id *ID) bindDevice() error {
	addrs := addrsPool.Get().(*ucma.Addrs)
	defer addrsPool.Put(addrs)
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		err := f.QueryAddr(kid, addrs)
		if err != nil {
			return err
		}
		resp := addrs.Resp()
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
	var addrs ucma.Addrs
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		if err := f.QueryAddr(kid, &addrs); err != nil {
			return err
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(addrs.Resp())
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
