// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// ERDMA_ABI_VERSION is the version of rdma/erdma-abi.h.
const ERDMA_ABI_VERSION = 1

// ErdmaUreqCreateCQ mirrors struct erdma_ureq_create_cq (rdma/erdma-abi.h), the memory of a new CQ.
type ErdmaUreqCreateCQ struct {
	_          structs.HostLayout
	DBRecordVA Pointer
	QbufVA     Pointer
	QbufLen    uint32
	Rsvd0      uint32
}

// ErdmaUrespCreateCQ mirrors struct erdma_uresp_create_cq (rdma/erdma-abi.h), the number and the
// size of a new CQ.
type ErdmaUrespCreateCQ struct {
	_      structs.HostLayout
	CQID   uint32
	NumCQE uint32
}

// ErdmaUreqCreateQP mirrors struct erdma_ureq_create_qp (rdma/erdma-abi.h), the memory of a new QP.
type ErdmaUreqCreateQP struct {
	_          structs.HostLayout
	DBRecordVA Pointer
	QbufVA     Pointer
	QbufLen    uint32
	Rsvd0      uint32
}

// ErdmaUrespCreateQP mirrors struct erdma_uresp_create_qp (rdma/erdma-abi.h), the number and the
// sizes of a new QP.
type ErdmaUrespCreateQP struct {
	_        structs.HostLayout
	QPID     uint32
	NumSQE   uint32
	NumRQE   uint32
	RQOffset uint32 // of the receive queue in the memory
}

// ErdmaUrespAllocCtx mirrors struct erdma_uresp_alloc_ctx (rdma/erdma-abi.h), the doorbells of a
// context. The last three fields are offsets for mmap(2).
type ErdmaUrespAllocCtx struct {
	_         structs.HostLayout
	DevID     uint32
	Pad       uint32
	SDBType   uint32
	SDBOffset uint32
	SDB       uint64
	RDB       uint64
	CDB       uint64
}
