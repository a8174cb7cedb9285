// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// UverbsCreateSRQ mirrors struct ib_uverbs_create_srq (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_CREATE_SRQ.
type UverbsCreateSRQ struct {
	_          structs.HostLayout
	Response   Pointer
	UserHandle uint64
	PDHandle   uint32
	MaxWR      uint32
	MaxSGE     uint32
	SRQLimit   uint32
}

// UverbsCreateXSRQ mirrors struct ib_uverbs_create_xsrq (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_CREATE_XSRQ.
type UverbsCreateXSRQ struct {
	_          structs.HostLayout
	Response   Pointer
	UserHandle uint64
	SRQType    uint32
	PDHandle   uint32
	MaxWR      uint32
	MaxSGE     uint32
	SRQLimit   uint32
	MaxNumTags uint32
	XRCDHandle uint32
	CQHandle   uint32
}

// UverbsCreateSRQResp mirrors struct ib_uverbs_create_srq_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_CREATE_SRQ.
type UverbsCreateSRQResp struct {
	_         structs.HostLayout
	SRQHandle uint32
	MaxWR     uint32
	MaxSGE    uint32
	SRQN      uint32
}

// UverbsModifySRQ mirrors struct ib_uverbs_modify_srq (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_MODIFY_SRQ.
type UverbsModifySRQ struct {
	_         structs.HostLayout
	SRQHandle uint32
	AttrMask  uint32
	MaxWR     uint32
	SRQLimit  uint32
}

// UverbsQuerySRQ mirrors struct ib_uverbs_query_srq (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_QUERY_SRQ.
type UverbsQuerySRQ struct {
	_         structs.HostLayout
	Response  Pointer
	SRQHandle uint32
	Reserved  uint32
}

// UverbsQuerySRQResp mirrors struct ib_uverbs_query_srq_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_QUERY_SRQ.
type UverbsQuerySRQResp struct {
	_        structs.HostLayout
	MaxWR    uint32
	MaxSGE   uint32
	SRQLimit uint32
	Reserved uint32
}

// UverbsDestroySRQ mirrors struct ib_uverbs_destroy_srq (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DESTROY_SRQ.
type UverbsDestroySRQ struct {
	_         structs.HostLayout
	Response  Pointer
	SRQHandle uint32
	Reserved  uint32
}

// UverbsDestroySRQResp mirrors struct ib_uverbs_destroy_srq_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_CMD_DESTROY_SRQ.
type UverbsDestroySRQResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// UverbsExCreateWQ mirrors struct ib_uverbs_ex_create_wq
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_CREATE_WQ.
type UverbsExCreateWQ struct {
	_           structs.HostLayout
	CompMask    uint32
	WQType      uint32
	UserHandle  uint64
	PDHandle    uint32
	CQHandle    uint32
	MaxWR       uint32
	MaxSGE      uint32
	CreateFlags uint32
	Reserved    uint32
}

// UverbsExCreateWQResp mirrors struct ib_uverbs_ex_create_wq_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_CREATE_WQ.
type UverbsExCreateWQResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
	WQHandle       uint32
	MaxWR          uint32
	MaxSGE         uint32
	WQN            uint32
}

// UverbsExDestroyWQ mirrors struct ib_uverbs_ex_destroy_wq
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_DESTROY_WQ.
type UverbsExDestroyWQ struct {
	_        structs.HostLayout
	CompMask uint32
	WQHandle uint32
}

// UverbsExDestroyWQResp mirrors struct ib_uverbs_ex_destroy_wq_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_DESTROY_WQ.
type UverbsExDestroyWQResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
	EventsReported uint32
	Reserved       uint32
}

// UverbsExModifyWQ mirrors struct ib_uverbs_ex_modify_wq
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_MODIFY_WQ.
type UverbsExModifyWQ struct {
	_           structs.HostLayout
	AttrMask    uint32
	WQHandle    uint32
	WQState     uint32
	CurrWQState uint32
	Flags       uint32
	FlagsMask   uint32
}

// UverbsExCreateRWQIndTable mirrors struct ib_uverbs_ex_create_rwq_ind_table
// (rdma/ib_user_verbs.h) up to its flexible end, the request of
// IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL.
type UverbsExCreateRWQIndTable struct {
	_             structs.HostLayout
	CompMask      uint32
	LogIndTblSize uint32
}

// UverbsExCreateRWQIndTableResp mirrors struct ib_uverbs_ex_create_rwq_ind_table_resp
// (rdma/ib_user_verbs.h), the response to IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL.
type UverbsExCreateRWQIndTableResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
	IndTblHandle   uint32
	IndTblNum      uint32
}

// UverbsExDestroyRWQIndTable mirrors struct ib_uverbs_ex_destroy_rwq_ind_table
// (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL.
type UverbsExDestroyRWQIndTable struct {
	_            structs.HostLayout
	CompMask     uint32
	IndTblHandle uint32
}
