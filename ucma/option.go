// SPDX-License-Identifier: Apache-2.0

package ucma

import "purerdma/abi"

// SetOption sets an option (RDMA_USER_CM_CMD_SET_OPTION). The kernel requires the exact length. It
// is one byte for RDMA_OPTION_ID_TOS and RDMA_OPTION_ID_ACK_TIMEOUT, and four for
// RDMA_OPTION_ID_REUSEADDR and RDMA_OPTION_ID_AFONLY.
func (f *File) SetOption(id, level, name uint32, value []byte) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_SET_OPTION, id, abi.UcmSetOption{
		OptVal:  abi.NewSlicePointer(value),
		ID:      id,
		Level:   level,
		OptName: name,
		OptLen:  uint32(len(value)),
	})
}
