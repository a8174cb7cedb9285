// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// enum ib_uverbs_ex_create_cq_flags of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION = 1 << 0
	IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN       = 1 << 1
)

// enum ib_uverbs_wc_opcode of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_WC_SEND = iota
	IB_UVERBS_WC_RDMA_WRITE
	IB_UVERBS_WC_RDMA_READ
	IB_UVERBS_WC_COMP_SWAP
	IB_UVERBS_WC_FETCH_ADD
	IB_UVERBS_WC_BIND_MW
	IB_UVERBS_WC_LOCAL_INV
	IB_UVERBS_WC_TSO
	IB_UVERBS_WC_FLUSH        // since Linux 6.12
	IB_UVERBS_WC_ATOMIC_WRITE // since Linux 6.12
)

// UverbsCompEventDesc mirrors struct ib_uverbs_comp_event_desc (rdma/ib_user_verbs.h), the result
// of a read of a completion channel.
type UverbsCompEventDesc struct {
	_        structs.HostLayout
	CQHandle uint64 // the user handle of the CQ
}

// UverbsCreateCompChannel mirrors struct ib_uverbs_create_comp_channel
// (rdma/ib_user_verbs.h).
type UverbsCreateCompChannel struct {
	_        structs.HostLayout
	Response Pointer
}

// UverbsCreateCompChannelResp mirrors struct ib_uverbs_create_comp_channel_resp
// (rdma/ib_user_verbs.h).
type UverbsCreateCompChannelResp struct {
	_  structs.HostLayout
	FD uint32
}

// UverbsCreateCQ mirrors struct ib_uverbs_create_cq (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_CREATE_CQ.
type UverbsCreateCQ struct {
	_           structs.HostLayout
	Response    Pointer
	UserHandle  uint64
	CQE         uint32
	CompVector  uint32
	CompChannel int32
	Reserved    uint32
}

// UverbsExCreateCQ mirrors struct ib_uverbs_ex_create_cq
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_CREATE_CQ.
type UverbsExCreateCQ struct {
	_           structs.HostLayout
	UserHandle  uint64
	CQE         uint32
	CompVector  uint32
	CompChannel int32
	CompMask    uint32
	Flags       uint32
	Reserved    uint32
}

// UverbsCreateCQResp mirrors struct ib_uverbs_create_cq_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_CREATE_CQ.
type UverbsCreateCQResp struct {
	_        structs.HostLayout
	CQHandle uint32
	CQE      uint32
}

// UverbsExCreateCQResp mirrors struct ib_uverbs_ex_create_cq_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_CREATE_CQ.
type UverbsExCreateCQResp struct {
	_              structs.HostLayout
	Base           UverbsCreateCQResp
	CompMask       uint32
	ResponseLength uint32
}

// UverbsResizeCQ mirrors struct ib_uverbs_resize_cq (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_RESIZE_CQ.
type UverbsResizeCQ struct {
	_        structs.HostLayout
	Response Pointer
	CQHandle uint32
	CQE      uint32
}

// UverbsResizeCQResp mirrors struct ib_uverbs_resize_cq_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_RESIZE_CQ.
type UverbsResizeCQResp struct {
	_        structs.HostLayout
	CQE      uint32
	Reserved uint32
}

// UverbsPollCQ mirrors struct ib_uverbs_poll_cq (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_POLL_CQ.
type UverbsPollCQ struct {
	_        structs.HostLayout
	Response Pointer
	CQHandle uint32
	Ne       uint32
}

// UverbsWC mirrors struct ib_uverbs_wc (rdma/ib_user_verbs.h).
type UverbsWC struct {
	_            structs.HostLayout
	WRID         uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	Ex           [4]uint8 // union of __be32 imm_data and __u32 invalidate_rkey
	QPNum        uint32
	SrcQP        uint32
	WCFlags      uint32
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	PortNum      uint8
	Reserved     uint8
}

// UverbsPollCQResp mirrors struct ib_uverbs_poll_cq_resp (rdma/ib_user_verbs.h) up to its flexible
// end, the response to IB_USER_VERBS_CMD_POLL_CQ.
type UverbsPollCQResp struct {
	_        structs.HostLayout
	Count    uint32
	Reserved uint32
}

// UverbsReqNotifyCQ mirrors struct ib_uverbs_req_notify_cq
// (rdma/ib_user_verbs.h).
type UverbsReqNotifyCQ struct {
	_             structs.HostLayout
	CQHandle      uint32
	SolicitedOnly uint32
}

// UverbsDestroyCQ mirrors struct ib_uverbs_destroy_cq (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DESTROY_CQ.
type UverbsDestroyCQ struct {
	_        structs.HostLayout
	Response Pointer
	CQHandle uint32
	Reserved uint32
}

// UverbsDestroyCQResp mirrors struct ib_uverbs_destroy_cq_resp
// (rdma/ib_user_verbs.h).
type UverbsDestroyCQResp struct {
	_                   structs.HostLayout
	CompEventsReported  uint32
	AsyncEventsReported uint32
}

// UverbsCQModeration mirrors struct ib_uverbs_cq_moderation (rdma/ib_user_verbs.h), after how many
// completions, or microseconds, a CQ notifies.
type UverbsCQModeration struct {
	_        structs.HostLayout
	CQCount  uint16
	CQPeriod uint16
}

// UverbsExModifyCQ mirrors struct ib_uverbs_ex_modify_cq
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_MODIFY_CQ.
type UverbsExModifyCQ struct {
	_        structs.HostLayout
	CQHandle uint32
	AttrMask uint32
	Attr     UverbsCQModeration
	Reserved uint32
}
