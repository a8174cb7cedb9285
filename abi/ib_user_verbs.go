// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// IB_USER_VERBS_ABI_VERSION is the version of rdma/ib_user_verbs.h, found at
// /sys/class/infiniband_verbs/abi_version.
const IB_USER_VERBS_ABI_VERSION = 6

// enum ib_uverbs_write_cmds of rdma/ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_GET_CONTEXT = iota
	IB_USER_VERBS_CMD_QUERY_DEVICE
	IB_USER_VERBS_CMD_QUERY_PORT
	IB_USER_VERBS_CMD_ALLOC_PD
	IB_USER_VERBS_CMD_DEALLOC_PD
	IB_USER_VERBS_CMD_CREATE_AH
	IB_USER_VERBS_CMD_MODIFY_AH
	IB_USER_VERBS_CMD_QUERY_AH
	IB_USER_VERBS_CMD_DESTROY_AH
	IB_USER_VERBS_CMD_REG_MR
	IB_USER_VERBS_CMD_REG_SMR
	IB_USER_VERBS_CMD_REREG_MR
	IB_USER_VERBS_CMD_QUERY_MR
	IB_USER_VERBS_CMD_DEREG_MR
	IB_USER_VERBS_CMD_ALLOC_MW
	IB_USER_VERBS_CMD_BIND_MW
	IB_USER_VERBS_CMD_DEALLOC_MW
	IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
	IB_USER_VERBS_CMD_CREATE_CQ
	IB_USER_VERBS_CMD_RESIZE_CQ
	IB_USER_VERBS_CMD_DESTROY_CQ
	IB_USER_VERBS_CMD_POLL_CQ
	IB_USER_VERBS_CMD_PEEK_CQ
	IB_USER_VERBS_CMD_REQ_NOTIFY_CQ
	IB_USER_VERBS_CMD_CREATE_QP
	IB_USER_VERBS_CMD_QUERY_QP
	IB_USER_VERBS_CMD_MODIFY_QP
	IB_USER_VERBS_CMD_DESTROY_QP
	IB_USER_VERBS_CMD_POST_SEND
	IB_USER_VERBS_CMD_POST_RECV
	IB_USER_VERBS_CMD_ATTACH_MCAST
	IB_USER_VERBS_CMD_DETACH_MCAST
	IB_USER_VERBS_CMD_CREATE_SRQ
	IB_USER_VERBS_CMD_MODIFY_SRQ
	IB_USER_VERBS_CMD_QUERY_SRQ
	IB_USER_VERBS_CMD_DESTROY_SRQ
	IB_USER_VERBS_CMD_POST_SRQ_RECV
	IB_USER_VERBS_CMD_OPEN_XRCD
	IB_USER_VERBS_CMD_CLOSE_XRCD
	IB_USER_VERBS_CMD_CREATE_XSRQ
	IB_USER_VERBS_CMD_OPEN_QP
)

// Parts of UverbsCmdHdr.Command, from rdma/ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_COMMAND_MASK  = 0xff
	IB_USER_VERBS_CMD_FLAG_EXTENDED = 0x80000000
)

// UverbsAsyncEventDesc mirrors struct ib_uverbs_async_event_desc
// (rdma/ib_user_verbs.h): what a read of the asynchronous event file returns.
type UverbsAsyncEventDesc struct {
	_         structs.HostLayout
	Element   uint64 // the user handle of the object, or a port number
	EventType uint32 // enum ib_event_type
	Reserved  uint32
}

// UverbsCompEventDesc mirrors struct ib_uverbs_comp_event_desc
// (rdma/ib_user_verbs.h): what a read of a completion channel returns.
type UverbsCompEventDesc struct {
	_        structs.HostLayout
	CQHandle uint64 // the user handle of the CQ
}

// UverbsCQModerationCaps mirrors struct ib_uverbs_cq_moderation_caps
// (rdma/ib_user_verbs.h).
type UverbsCQModerationCaps struct {
	_                     structs.HostLayout
	MaxCQModerationCount  uint16
	MaxCQModerationPeriod uint16
	Reserved              uint32
}

// UverbsCmdHdr mirrors struct ib_uverbs_cmd_hdr (rdma/ib_user_verbs.h): the
// start of every command that is given with write(2).
type UverbsCmdHdr struct {
	_        structs.HostLayout
	Command  uint32 // IB_USER_VERBS_CMD_...
	InWords  uint16 // length of header and command, in 32-bit words
	OutWords uint16 // length of the answer, in 32-bit words
}

// UverbsQueryDevice mirrors struct ib_uverbs_query_device
// (rdma/ib_user_verbs.h).
type UverbsQueryDevice struct {
	_        structs.HostLayout
	Response Pointer
}

// UverbsQueryDeviceResp mirrors struct ib_uverbs_query_device_resp
// (rdma/ib_user_verbs.h).
type UverbsQueryDeviceResp struct {
	_                     structs.HostLayout
	FWVer                 uint64
	NodeGUID              [8]uint8 // __be64
	SysImageGUID          [8]uint8 // __be64
	MaxMRSize             uint64
	PageSizeCap           uint64
	VendorID              uint32
	VendorPartID          uint32
	HWVer                 uint32
	MaxQP                 uint32
	MaxQPWR               uint32
	DeviceCapFlags        uint32
	MaxSGE                uint32
	MaxSGERd              uint32
	MaxCQ                 uint32
	MaxCQE                uint32
	MaxMR                 uint32
	MaxPD                 uint32
	MaxQPRdAtom           uint32
	MaxEERdAtom           uint32
	MaxResRdAtom          uint32
	MaxQPInitRdAtom       uint32
	MaxEEInitRdAtom       uint32
	AtomicCap             uint32
	MaxEE                 uint32
	MaxRDD                uint32
	MaxMW                 uint32
	MaxRawIPv6QP          uint32
	MaxRawEthyQP          uint32
	MaxMcastGrp           uint32
	MaxMcastQPAttach      uint32
	MaxTotalMcastQPAttach uint32
	MaxAH                 uint32
	MaxFMR                uint32
	MaxMapPerFMR          uint32
	MaxSRQ                uint32
	MaxSRQWR              uint32
	MaxSRQSGE             uint32
	MaxPKeys              uint16
	LocalCAAckDelay       uint8
	PhysPortCnt           uint8
	Reserved              [4]uint8
}

// UverbsQueryPortResp mirrors struct ib_uverbs_query_port_resp
// (rdma/ib_user_verbs.h).
type UverbsQueryPortResp struct {
	_             structs.HostLayout
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPKeyCntr   uint32
	QKeyViolCntr  uint32
	GIDTblLen     uint32
	PKeyTblLen    uint16
	LID           uint16
	SMLID         uint16
	State         uint8
	MaxMTU        uint8
	ActiveMTU     uint8
	LMC           uint8
	MaxVLNum      uint8
	SMSL          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint8
	PhysState     uint8
	LinkLayer     uint8
	Flags         uint8
	Reserved      uint8
}

// UverbsAllocPD mirrors struct ib_uverbs_alloc_pd (rdma/ib_user_verbs.h).
type UverbsAllocPD struct {
	_        structs.HostLayout
	Response Pointer
}

// UverbsAllocPDResp mirrors struct ib_uverbs_alloc_pd_resp
// (rdma/ib_user_verbs.h).
type UverbsAllocPDResp struct {
	_        structs.HostLayout
	PDHandle uint32
}

// UverbsRegMR mirrors struct ib_uverbs_reg_mr (rdma/ib_user_verbs.h).
type UverbsRegMR struct {
	_           structs.HostLayout
	Response    Pointer
	Start       Pointer
	Length      uint64
	HCAVA       uint64 // the address by which work requests name the first byte
	PDHandle    uint32
	AccessFlags uint32 // IB_UVERBS_ACCESS_...
}

// UverbsRegMRResp mirrors struct ib_uverbs_reg_mr_resp (rdma/ib_user_verbs.h).
type UverbsRegMRResp struct {
	_        structs.HostLayout
	MRHandle uint32
	LKey     uint32
	RKey     uint32
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

// enum ib_uverbs_wc_opcode of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_WC_SEND       = 0
	IB_UVERBS_WC_RDMA_WRITE = 1
	IB_UVERBS_WC_RDMA_READ  = 2
	IB_UVERBS_WC_COMP_SWAP  = 3
	IB_UVERBS_WC_FETCH_ADD  = 4
	IB_UVERBS_WC_BIND_MW    = 5
	IB_UVERBS_WC_LOCAL_INV  = 6
	IB_UVERBS_WC_TSO        = 7
)

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

// UverbsReqNotifyCQ mirrors struct ib_uverbs_req_notify_cq
// (rdma/ib_user_verbs.h).
type UverbsReqNotifyCQ struct {
	_             structs.HostLayout
	CQHandle      uint32
	SolicitedOnly uint32
}

// UverbsDestroyCQResp mirrors struct ib_uverbs_destroy_cq_resp
// (rdma/ib_user_verbs.h).
type UverbsDestroyCQResp struct {
	_                   structs.HostLayout
	CompEventsReported  uint32
	AsyncEventsReported uint32
}

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

// UverbsQPAttr mirrors struct ib_uverbs_qp_attr (rdma/ib_user_verbs.h): the
// answer of the connection manager's INIT_QP_ATTR.
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

// UverbsDestroyQPResp mirrors struct ib_uverbs_destroy_qp_resp
// (rdma/ib_user_verbs.h).
type UverbsDestroyQPResp struct {
	_              structs.HostLayout
	EventsReported uint32
}

// enum ib_uverbs_wr_opcode of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_WR_RDMA_WRITE                  = 0
	IB_UVERBS_WR_RDMA_WRITE_WITH_IMM         = 1
	IB_UVERBS_WR_SEND                        = 2
	IB_UVERBS_WR_SEND_WITH_IMM               = 3
	IB_UVERBS_WR_RDMA_READ                   = 4
	IB_UVERBS_WR_ATOMIC_CMP_AND_SWP          = 5
	IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD        = 6
	IB_UVERBS_WR_LOCAL_INV                   = 7
	IB_UVERBS_WR_BIND_MW                     = 8
	IB_UVERBS_WR_SEND_WITH_INV               = 9
	IB_UVERBS_WR_TSO                         = 10
	IB_UVERBS_WR_RDMA_READ_WITH_INV          = 11
	IB_UVERBS_WR_MASKED_ATOMIC_CMP_AND_SWP   = 12
	IB_UVERBS_WR_MASKED_ATOMIC_FETCH_AND_ADD = 13
)

// UverbsSendWR mirrors struct ib_uverbs_send_wr (rdma/ib_user_verbs.h). WR is
// its union, of which atomic, named here, is the longest member.
type UverbsSendWR struct {
	_         structs.HostLayout
	WRID      uint64
	NumSGE    uint32
	Opcode    uint32
	SendFlags uint32
	Ex        [4]uint8 // union of __be32 imm_data and __u32 invalidate_rkey
	WR        UverbsSendWRAtomic
}

// UverbsSendWRAtomic mirrors wr.atomic of struct ib_uverbs_send_wr
// (rdma/ib_user_verbs.h).
type UverbsSendWRAtomic struct {
	_          structs.HostLayout
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	RKey       uint32
	Reserved   uint32
}

// UverbsPostSend mirrors struct ib_uverbs_post_send (rdma/ib_user_verbs.h).
type UverbsPostSend struct {
	_        structs.HostLayout
	Response Pointer
	QPHandle uint32
	WRCount  uint32
	SGECount uint32
	WQESize  uint32
}

// UverbsPostSendResp mirrors struct ib_uverbs_post_send_resp
// (rdma/ib_user_verbs.h).
type UverbsPostSendResp struct {
	_     structs.HostLayout
	BadWR uint32
}

// IB_DEVICE_NAME_MAX is the length of a device name with its closing zero, from
// rdma/ib_user_verbs.h.
const IB_DEVICE_NAME_MAX = 64
