// SPDX-License-Identifier: Apache-2.0

package abi

// RDMA_VERBS_IOCTL is the one ioctl of a uverbs device,
// _IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr) of
// rdma/rdma_user_ioctl_cmds.h, in the encoding of asm-generic/ioctl.h that
// amd64, arm64 and riscv64 use.
const RDMA_VERBS_IOCTL = 3<<30 | 24<<16 | RDMA_IOCTL_MAGIC<<8 | 1
