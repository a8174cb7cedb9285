// SPDX-License-Identifier: Apache-2.0

package abi

// IB_IOCTL_MAGIC is the older name of RDMA_IOCTL_MAGIC.
const IB_IOCTL_MAGIC = RDMA_IOCTL_MAGIC

// The ioctls of a umad device, in the encoding of asm-generic/ioctl.h that amd64,
// arm64 and riscv64 use, from rdma/rdma_user_ioctl.h.
const (
	IB_USER_MAD_REGISTER_AGENT   = 3<<30 | 28<<16 | RDMA_IOCTL_MAGIC<<8 | 1
	IB_USER_MAD_UNREGISTER_AGENT = 1<<30 | 4<<16 | RDMA_IOCTL_MAGIC<<8 | 2
	IB_USER_MAD_ENABLE_PKEY      = RDMA_IOCTL_MAGIC<<8 | 3
	IB_USER_MAD_REGISTER_AGENT2  = 3<<30 | 40<<16 | RDMA_IOCTL_MAGIC<<8 | 4
)

// The ioctls of an hfi1 device, in the same encoding, from rdma/rdma_user_ioctl.h.
const (
	HFI1_IOCTL_ASSIGN_CTXT    = 3<<30 | 28<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe1
	HFI1_IOCTL_CTXT_INFO      = 1<<30 | 40<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe2
	HFI1_IOCTL_USER_INFO      = 1<<30 | 120<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe3
	HFI1_IOCTL_TID_UPDATE     = 3<<30 | 24<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe4
	HFI1_IOCTL_TID_FREE       = 3<<30 | 24<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe5
	HFI1_IOCTL_CREDIT_UPD     = RDMA_IOCTL_MAGIC<<8 | 0xe6
	HFI1_IOCTL_RECV_CTRL      = 1<<30 | 4<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe8
	HFI1_IOCTL_POLL_TYPE      = 1<<30 | 4<<16 | RDMA_IOCTL_MAGIC<<8 | 0xe9
	HFI1_IOCTL_ACK_EVENT      = 1<<30 | 8<<16 | RDMA_IOCTL_MAGIC<<8 | 0xea
	HFI1_IOCTL_SET_PKEY       = 1<<30 | 2<<16 | RDMA_IOCTL_MAGIC<<8 | 0xeb
	HFI1_IOCTL_CTXT_RESET     = RDMA_IOCTL_MAGIC<<8 | 0xec
	HFI1_IOCTL_TID_INVAL_READ = 3<<30 | 24<<16 | RDMA_IOCTL_MAGIC<<8 | 0xed
	HFI1_IOCTL_GET_VERS       = 2<<30 | 4<<16 | RDMA_IOCTL_MAGIC<<8 | 0xee
)
