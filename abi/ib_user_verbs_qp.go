// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// enum ib_uverbs_create_qp_mask of rdma/ib_user_verbs.h.
const IB_UVERBS_CREATE_QP_MASK_IND_TABLE = 1 << 0

// The bits of UverbsExCreateQP.CompMask that the kernel supports, from rdma/ib_user_verbs.h.
const IB_UVERBS_CREATE_QP_SUP_COMP_MASK = 1 << 0

// UverbsGlobalRoute mirrors struct ib_uverbs_global_route
// (rdma/ib_user_verbs.h).
type UverbsGlobalRoute struct {
	_            structs.HostLayout
	DGID         [16]uint8
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Reserved     uint8
}

// UverbsAHAttr mirrors struct ib_uverbs_ah_attr (rdma/ib_user_verbs.h).
type UverbsAHAttr struct {
	_           structs.HostLayout
	GRH         UverbsGlobalRoute
	DLID        uint16
	SL          uint8
	SrcPathBits uint8
	StaticRate  uint8
	IsGlobal    uint8
	PortNum     uint8
	Reserved    uint8
}

// UverbsQPAttr mirrors struct ib_uverbs_qp_attr (rdma/ib_user_verbs.h), the response of the
// connection manager's INIT_QP_ATTR.
type UverbsQPAttr struct {
	_                structs.HostLayout
	QPAttrMask       uint32 // IB_QP_...
	QPState          uint32
	CurQPState       uint32
	PathMTU          uint32
	PathMigState     uint32
	QKey             uint32
	RQPSN            uint32
	SQPSN            uint32
	DestQPNum        uint32
	QPAccessFlags    uint32
	AHAttr           UverbsAHAttr
	AltAHAttr        UverbsAHAttr
	MaxSendWR        uint32
	MaxRecvWR        uint32
	MaxSendSGE       uint32
	MaxRecvSGE       uint32
	MaxInlineData    uint32
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSQDAsyncNotify uint8
	SQDraining       uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRNRTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [5]uint8
}

// UverbsCreateQP mirrors struct ib_uverbs_create_qp (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_CREATE_QP.
type UverbsCreateQP struct {
	_             structs.HostLayout
	Response      Pointer
	UserHandle    uint64
	PDHandle      uint32
	SendCQHandle  uint32
	RecvCQHandle  uint32
	SRQHandle     uint32
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
	SQSigAll      uint8
	QPType        uint8
	IsSRQ         uint8
	Reserved      uint8
}

// UverbsExCreateQP mirrors struct ib_uverbs_ex_create_qp
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_CREATE_QP.
type UverbsExCreateQP struct {
	_               structs.HostLayout
	UserHandle      uint64
	PDHandle        uint32
	SendCQHandle    uint32
	RecvCQHandle    uint32
	SRQHandle       uint32
	MaxSendWR       uint32
	MaxRecvWR       uint32
	MaxSendSGE      uint32
	MaxRecvSGE      uint32
	MaxInlineData   uint32
	SQSigAll        uint8
	QPType          uint8
	IsSRQ           uint8
	Reserved        uint8
	CompMask        uint32
	CreateFlags     uint32
	RWQIndTblHandle uint32
	SourceQPN       uint32
}

// UverbsOpenQP mirrors struct ib_uverbs_open_qp (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_OPEN_QP.
type UverbsOpenQP struct {
	_          structs.HostLayout
	Response   Pointer
	UserHandle uint64
	PDHandle   uint32
	QPN        uint32
	QPType     uint8
	Reserved   [7]uint8
}

// UverbsCreateQPResp mirrors struct ib_uverbs_create_qp_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_CREATE_QP.
type UverbsCreateQPResp struct {
	_             structs.HostLayout
	QPHandle      uint32
	QPN           uint32
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
	Reserved      uint32
}

// UverbsExCreateQPResp mirrors struct ib_uverbs_ex_create_qp_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_CREATE_QP.
type UverbsExCreateQPResp struct {
	_              structs.HostLayout
	Base           UverbsCreateQPResp
	CompMask       uint32
	ResponseLength uint32
}

// UverbsQPDest mirrors struct ib_uverbs_qp_dest (rdma/ib_user_verbs.h).
type UverbsQPDest struct {
	_            structs.HostLayout
	DGID         [16]uint8
	FlowLabel    uint32
	DLID         uint16
	Reserved     uint16
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	IsGlobal     uint8
	PortNum      uint8
}

// UverbsQueryQP mirrors struct ib_uverbs_query_qp (rdma/ib_user_verbs.h).
type UverbsQueryQP struct {
	_        structs.HostLayout
	Response Pointer
	QPHandle uint32
	AttrMask uint32
}

// UverbsQueryQPResp mirrors struct ib_uverbs_query_qp_resp
// (rdma/ib_user_verbs.h).
type UverbsQueryQPResp struct {
	_               structs.HostLayout
	Dest            UverbsQPDest
	AltDest         UverbsQPDest
	MaxSendWR       uint32
	MaxRecvWR       uint32
	MaxSendSGE      uint32
	MaxRecvSGE      uint32
	MaxInlineData   uint32
	QKey            uint32
	RQPSN           uint32
	SQPSN           uint32
	DestQPNum       uint32
	QPAccessFlags   uint32
	PKeyIndex       uint16
	AltPKeyIndex    uint16
	QPState         uint8
	CurQPState      uint8
	PathMTU         uint8
	PathMigState    uint8
	SQDraining      uint8
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     uint8
	PortNum         uint8
	Timeout         uint8
	RetryCnt        uint8
	RNRRetry        uint8
	AltPortNum      uint8
	AltTimeout      uint8
	SQSigAll        uint8
	Reserved        [5]uint8
}

// UverbsModifyQP mirrors struct ib_uverbs_modify_qp (rdma/ib_user_verbs.h).
type UverbsModifyQP struct {
	_                structs.HostLayout
	Dest             UverbsQPDest
	AltDest          UverbsQPDest
	QPHandle         uint32
	AttrMask         uint32
	QKey             uint32
	RQPSN            uint32
	SQPSN            uint32
	DestQPNum        uint32
	QPAccessFlags    uint32
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	QPState          uint8
	CurQPState       uint8
	PathMTU          uint8
	PathMigState     uint8
	EnSQDAsyncNotify uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRNRTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	Reserved         [2]uint8
}

// UverbsExModifyQP mirrors struct ib_uverbs_ex_modify_qp
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_MODIFY_QP.
type UverbsExModifyQP struct {
	_         structs.HostLayout
	Base      UverbsModifyQP
	RateLimit uint32
	Reserved  uint32
}

// UverbsExModifyQPResp mirrors struct ib_uverbs_ex_modify_qp_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_MODIFY_QP.
type UverbsExModifyQPResp struct {
	_              structs.HostLayout
	CompMask       uint32
	ResponseLength uint32
}

// UverbsDestroyQP mirrors struct ib_uverbs_destroy_qp (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DESTROY_QP.
type UverbsDestroyQP struct {
	_        structs.HostLayout
	Response Pointer
	QPHandle uint32
	Reserved uint32
}

// UverbsDestroyQPResp mirrors struct ib_uverbs_destroy_qp_resp
// (rdma/ib_user_verbs.h).
type UverbsDestroyQPResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// UverbsCreateAH mirrors struct ib_uverbs_create_ah (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_CREATE_AH.
type UverbsCreateAH struct {
	_          structs.HostLayout
	Response   Pointer
	UserHandle uint64
	PDHandle   uint32
	Reserved   uint32
	Attr       UverbsAHAttr
}

// UverbsCreateAHResp mirrors struct ib_uverbs_create_ah_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_CREATE_AH.
type UverbsCreateAHResp struct {
	_        structs.HostLayout
	AHHandle uint32
}

// UverbsDestroyAH mirrors struct ib_uverbs_destroy_ah (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DESTROY_AH.
type UverbsDestroyAH struct {
	_        structs.HostLayout
	AHHandle uint32
}

// UverbsAttachMcast mirrors struct ib_uverbs_attach_mcast
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_CMD_ATTACH_MCAST.
type UverbsAttachMcast struct {
	_        structs.HostLayout
	GID      [16]uint8
	QPHandle uint32
	MLID     uint16
	Reserved uint16
}

// UverbsDetachMcast mirrors struct ib_uverbs_detach_mcast
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_CMD_DETACH_MCAST.
type UverbsDetachMcast struct {
	_        structs.HostLayout
	GID      [16]uint8
	QPHandle uint32
	MLID     uint16
	Reserved uint16
}
