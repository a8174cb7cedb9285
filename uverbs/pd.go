// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// AllocPD allocates a protection domain and returns its handle
// (IB_USER_VERBS_CMD_ALLOC_PD).
func (f *File) AllocPD(drv Driver) (uint32, error) {
	var cmd abi.UverbsAllocPD
	var resp abi.UverbsAllocPDResp
	err := f.InvokeWrite(abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.Bytes(&cmd), abi.Bytes(&resp), drv)
	return resp.PDHandle, err
}

// DeallocPD deallocates a protection domain (UVERBS_METHOD_PD_DESTROY). One that
// is in use gives EBUSY.
func (f *File) DeallocPD(pd uint32) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_PD_HANDLE, pd))
	return err
}
