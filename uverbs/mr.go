// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// MR is the answer of RegMR.
type MR struct {
	Handle uint32
	LKey   uint32
	RKey   uint32
}

// RegMR pins memory and registers it (IB_USER_VERBS_CMD_REG_MR). Work requests
// name b[0] by the address iova, whose offset in its page is that of b[0]. The
// memory must stay where it is until DeregMR. Beyond RLIMIT_MEMLOCK the kernel
// gives ENOMEM.
func (f *File) RegMR(pd uint32, b []byte, iova uint64, access uint32, drv Driver) (MR, error) {
	cmd := abi.UverbsRegMR{
		Start:       abi.NewSlicePointer(b),
		Length:      uint64(len(b)),
		HCAVA:       iova,
		PDHandle:    pd,
		AccessFlags: access,
	}
	var resp abi.UverbsRegMRResp
	err := f.invokeWrite(abi.IB_USER_VERBS_CMD_REG_MR, abi.Bytes(&cmd), abi.Bytes(&resp), drv)
	return MR{Handle: resp.MRHandle, LKey: resp.LKey, RKey: resp.RKey}, err
}

// DeregMR deregisters memory and unpins it (UVERBS_METHOD_MR_DESTROY). If it
// fails, the device may still reach the memory.
func (f *File) DeregMR(mr uint32) error {
	_, err := f.ioctl(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY,
		handle(abi.UVERBS_ATTR_DESTROY_MR_HANDLE, mr))
	return err
}
