// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// The type byte of every ioctl, and UverbsAttr.Flags, from
// rdma/rdma_user_ioctl_cmds.h.
const (
	RDMA_IOCTL_MAGIC = 0x1b

	UVERBS_ATTR_F_MANDATORY    = 1 << 0
	UVERBS_ATTR_F_VALID_OUTPUT = 1 << 1
)

// RDMA_VERBS_IOCTL is the one ioctl of a uverbs device,
// _IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr) of
// rdma/rdma_user_ioctl_cmds.h, in the encoding of asm-generic/ioctl.h that
// amd64, arm64 and riscv64 use.
const RDMA_VERBS_IOCTL = 3<<30 | 24<<16 | RDMA_IOCTL_MAGIC<<8 | 1

// UverbsAttr mirrors struct ib_uverbs_attr (rdma/rdma_user_ioctl_cmds.h), one attribute of a
// request.
//
// Data is a union. It holds the address of the attribute's bytes, the bytes of an input of up to
// eight bytes, an object handle or a file descriptor. It is an integer, which hides an address from
// the garbage collector. Code that stores an address here pins the memory for the duration of the
// call.
type UverbsAttr struct {
	_        structs.HostLayout
	AttrID   uint16
	Len      uint16 // bytes; 0 for handles and descriptors
	Flags    uint16 // UVERBS_ATTR_F_...
	ElemID   uint8  // enum_data.elem_id
	Reserved uint8
	Data     uint64
}

// UverbsIoctlHdr mirrors struct ib_uverbs_ioctl_hdr
// (rdma/rdma_user_ioctl_cmds.h), which NumAttrs of [UverbsAttr] follow.
type UverbsIoctlHdr struct {
	_         structs.HostLayout
	Length    uint16 // bytes, header and attributes
	ObjectID  uint16 // UVERBS_OBJECT_...
	MethodID  uint16 // UVERBS_METHOD_...
	NumAttrs  uint16
	Reserved1 uint64
	DriverID  uint32 // the rdma_driver_id, or RDMA_DRIVER_UNKNOWN
	Reserved2 uint32
}
