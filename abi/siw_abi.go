// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// The version of rdma/siw-abi.h, and the limits of the parts of a work request, of its inline data
// in bytes, and of the keys that map a queue.
const (
	SIW_ABI_VERSION    = 1
	SIW_MAX_SGE        = 6
	SIW_UOBJ_MAX_KEY   = 0x8ffff
	SIW_INVAL_UOBJ_KEY = 0x90000
	SIW_MAX_INLINE     = 80
)

// enum siw_opcode of rdma/siw-abi.h.
const (
	SIW_OP_WRITE = iota
	SIW_OP_READ
	SIW_OP_READ_LOCAL_INV
	SIW_OP_SEND
	SIW_OP_SEND_WITH_IMM
	SIW_OP_SEND_REMOTE_INV
	SIW_OP_FETCH_AND_ADD
	SIW_OP_COMP_AND_SWAP
	SIW_OP_RECEIVE
	SIW_OP_READ_RESPONSE
	SIW_OP_INVAL_STAG
	SIW_OP_REG_MR
)

// enum siw_wqe_flags of rdma/siw-abi.h.
const (
	SIW_WQE_VALID      = 1 << 0
	SIW_WQE_INLINE     = 1 << 1
	SIW_WQE_SIGNALLED  = 1 << 2
	SIW_WQE_SOLICITED  = 1 << 3
	SIW_WQE_READ_FENCE = 1 << 4
	SIW_WQE_REM_INVAL  = 1 << 5
	SIW_WQE_COMPLETED  = 1 << 6
)

// enum siw_notify_flags of rdma/siw-abi.h.
const (
	SIW_NOTIFY_NOT             = 0
	SIW_NOTIFY_SOLICITED       = 1 << 0
	SIW_NOTIFY_NEXT_COMPLETION = 1 << 1
	SIW_NOTIFY_MISSED_EVENTS   = 1 << 2
	SIW_NOTIFY_ALL             = SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION | SIW_NOTIFY_MISSED_EVENTS
)

// enum siw_wc_status of rdma/siw-abi.h.
const (
	SIW_WC_SUCCESS = iota
	SIW_WC_LOC_LEN_ERR
	SIW_WC_LOC_PROT_ERR
	SIW_WC_LOC_QP_OP_ERR
	SIW_WC_WR_FLUSH_ERR
	SIW_WC_BAD_RESP_ERR
	SIW_WC_LOC_ACCESS_ERR
	SIW_WC_REM_ACCESS_ERR
	SIW_WC_REM_INV_REQ_ERR
	SIW_WC_GENERAL_ERR
)

// SiwUrespCreateCQ mirrors struct siw_uresp_create_cq (rdma/siw-abi.h), the numbers and the mapping
// of a new CQ.
type SiwUrespCreateCQ struct {
	_      structs.HostLayout
	CQID   uint32
	NumCQE uint32
	CQKey  uint64
}

// SiwUrespCreateQP mirrors struct siw_uresp_create_qp (rdma/siw-abi.h), the numbers and the
// mappings of a new QP.
type SiwUrespCreateQP struct {
	_      structs.HostLayout
	QPID   uint32
	NumSQE uint32
	NumRQE uint32
	Pad    uint32
	SQKey  uint64
	RQKey  uint64
}

// SiwUreqRegMR mirrors struct siw_ureq_reg_mr (rdma/siw-abi.h), the low byte of
// the STag.
type SiwUreqRegMR struct {
	_        structs.HostLayout
	STagKey  uint8
	Reserved [3]uint8
	Pad      uint32
}

// SiwUrespRegMR mirrors struct siw_uresp_reg_mr (rdma/siw-abi.h), the STag.
type SiwUrespRegMR struct {
	_    structs.HostLayout
	STag uint32
	Pad  uint32
}

// SiwUrespCreateSRQ mirrors struct siw_uresp_create_srq (rdma/siw-abi.h), the size and the mapping
// of a new SRQ.
type SiwUrespCreateSRQ struct {
	_      structs.HostLayout
	NumRQE uint32
	Pad    uint32
	SRQKey uint64
}

// SiwUrespAllocCtx mirrors struct siw_uresp_alloc_ctx (rdma/siw-abi.h), the number of the device.
type SiwUrespAllocCtx struct {
	_     structs.HostLayout
	DevID uint32
	Pad   uint32
}

// SiwSGE mirrors struct siw_sge (rdma/siw-abi.h), one part of the memory of a
// work request.
type SiwSGE struct {
	_      structs.HostLayout
	LAddr  uint64
	Length uint32
	LKey   uint32
}

// SiwSQE mirrors struct siw_sqe (rdma/siw-abi.h), a slot of a send queue.
type SiwSQE struct {
	_      structs.HostLayout
	ID     uint64
	Flags  uint16
	NumSGE uint8
	Opcode uint8
	RKey   uint32
	RAddr  uint64 // union with base_mr, the kernel's own
	SGE    [SIW_MAX_SGE]SiwSGE
}

// SiwRQE mirrors struct siw_rqe (rdma/siw-abi.h), a slot of a receive queue.
type SiwRQE struct {
	_      structs.HostLayout
	ID     uint64
	Flags  uint16
	NumSGE uint8
	Opcode uint8
	Unused uint32
	SGE    [SIW_MAX_SGE]SiwSGE
}

// SiwCQE mirrors struct siw_cqe (rdma/siw-abi.h), a slot of a completion queue.
type SiwCQE struct {
	_       structs.HostLayout
	ID      uint64
	Flags   uint8
	Opcode  uint8
	Status  uint16
	Bytes   uint32
	ImmData uint64 // union with __u32 inval_stag
	QPID    uint64 // union with base_qp, the kernel's own
}

// SiwCQCtrl mirrors struct siw_cq_ctrl (rdma/siw-abi.h), the word after the slots of a completion
// queue, which arms it.
type SiwCQCtrl struct {
	_     structs.HostLayout
	Flags uint32 // SIW_NOTIFY_...
	Pad   uint32
}
