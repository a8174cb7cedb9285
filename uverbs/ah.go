// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// CreateAH makes an address handle and returns its handle (IB_USER_VERBS_CMD_CREATE_AH). On RoCE
// the kernel resolves the MAC address.
func (f *File) CreateAH(pd uint32, attr abi.UverbsAHAttr, userHandle uint64, drv Driver) (uint32, error) {
	resp, err := runCommandResp[abi.UverbsCreateAHResp](f, abi.IB_USER_VERBS_CMD_CREATE_AH,
		&abi.UverbsCreateAH{UserHandle: userHandle, PDHandle: pd, Attr: attr}, drv)
	return resp.AHHandle, err
}

// DestroyAH destroys an address handle (UVERBS_METHOD_AH_DESTROY).
func (f *File) DestroyAH(ah uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY, abi.UVERBS_ATTR_DESTROY_AH_HANDLE, ah)
}
