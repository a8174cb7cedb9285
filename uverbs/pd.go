// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// AllocPD allocates a protection domain and returns its handle
// (IB_USER_VERBS_CMD_ALLOC_PD).
func (f *File) AllocPD(drv Driver) (uint32, error) {
	req := newRequest(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	defer req.free()
	var cmd abi.UverbsAllocPD
	req.number(abi.UVERBS_ATTR_WRITE_CMD, abi.IB_USER_VERBS_CMD_ALLOC_PD)
	req.in(abi.UVERBS_ATTR_CORE_IN, abi.Bytes(&cmd))
	resp := req.out(abi.UVERBS_ATTR_CORE_OUT, abi.Size[abi.UverbsAllocPDResp]())
	req.Attrs = drv.append(req.Attrs)
	if err := f.Ioctl(&req.Request); err != nil {
		return 0, err
	}
	return abi.View[abi.UverbsAllocPDResp](resp).PDHandle, nil
}

// DeallocPD deallocates a protection domain (UVERBS_METHOD_PD_DESTROY). It returns EBUSY for a
// domain in use.
func (f *File) DeallocPD(pd uint32) error { return deallocPD.run(f, pd) }

var deallocPD = prepareDestroy[struct{}](abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY, abi.UVERBS_ATTR_DESTROY_PD_HANDLE, 0)
