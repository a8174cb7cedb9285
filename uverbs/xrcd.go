// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// OpenXRCD opens an XRC domain and returns its handle (IB_USER_VERBS_CMD_OPEN_XRCD). Processes that
// share a domain open the same file. fd is its descriptor, or -1 for a domain that is not shared.
// flags are O_CREAT and O_EXCL of open(2), here about the domain.
func (f *File) OpenXRCD(fd int32, flags uint32, drv Driver) (uint32, error) {
	resp, err := runCommandResp[abi.UverbsOpenXRCDResp](f, abi.IB_USER_VERBS_CMD_OPEN_XRCD, &abi.UverbsOpenXRCD{FD: uint32(fd), Oflags: flags}, drv)
	return resp.XRCDHandle, err
}

// CloseXRCD closes an XRC domain (UVERBS_METHOD_XRCD_DESTROY).
func (f *File) CloseXRCD(xrcd uint32) error {
	return f.destroy(abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY, abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE, xrcd)
}
