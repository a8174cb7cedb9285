// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// MW is the result of AllocMW.
type MW struct {
	Handle uint32
	RKey   uint32
}

// AllocMW allocates a memory window (IB_USER_VERBS_CMD_ALLOC_MW). typ is 1 or 2, enum ibv_mw_type
// of ibv_alloc_mw(3).
func (f *File) AllocMW(pd uint32, typ uint8, drv Driver) (MW, error) {
	resp, err := runCommandResp[abi.UverbsAllocMWResp](f, abi.IB_USER_VERBS_CMD_ALLOC_MW, &abi.UverbsAllocMW{PDHandle: pd, MWType: typ}, drv)
	return MW{Handle: resp.MWHandle, RKey: resp.RKey}, err
}

// DeallocMW deallocates a memory window (UVERBS_METHOD_MW_DESTROY).
func (f *File) DeallocMW(mw uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY, abi.UVERBS_ATTR_DESTROY_MW_HANDLE, mw)
}
