// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// IB_USER_VERBS_ABI_VERSION is the version of rdma/ib_user_verbs.h, found at
// /sys/class/infiniband_verbs/abi_version.
const IB_USER_VERBS_ABI_VERSION = 6

// Parts of UverbsCmdHdr.Command, from rdma/ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_COMMAND_MASK  = 0xff
	IB_USER_VERBS_CMD_FLAG_EXTENDED = 0x80000000
)

// IB_DEVICE_NAME_MAX is the length of a device name with its closing zero, from
// rdma/ib_user_verbs.h.
const IB_DEVICE_NAME_MAX = 64

// IB_USER_VERBS_CMD_THRESHOLD is the first number of the commands that have only an extended form.
// IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE is the limit of UverbsExCreateRWQIndTable.LogIndTblSize. Both
// are from rdma/ib_user_verbs.h.
const (
	IB_USER_VERBS_CMD_THRESHOLD        = 50
	IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE = 13
)

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

// Commands that have UverbsExCmdHdr and IB_USER_VERBS_CMD_FLAG_EXTENDED, from
// rdma/ib_user_verbs.h.
const (
	IB_USER_VERBS_EX_CMD_QUERY_DEVICE        = 1
	IB_USER_VERBS_EX_CMD_CREATE_CQ           = 18
	IB_USER_VERBS_EX_CMD_CREATE_QP           = 24
	IB_USER_VERBS_EX_CMD_MODIFY_QP           = 26
	IB_USER_VERBS_EX_CMD_CREATE_FLOW         = 50
	IB_USER_VERBS_EX_CMD_DESTROY_FLOW        = 51
	IB_USER_VERBS_EX_CMD_CREATE_WQ           = 52
	IB_USER_VERBS_EX_CMD_MODIFY_WQ           = 53
	IB_USER_VERBS_EX_CMD_DESTROY_WQ          = 54
	IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL  = 55
	IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL = 56
	IB_USER_VERBS_EX_CMD_MODIFY_CQ           = 57
)

// enum ib_uverbs_odp_general_cap_bits of rdma/ib_user_verbs.h. Since Linux 7.3.
const (
	IB_UVERBS_ODP_SUPPORT          = 1 << 0
	IB_UVERBS_ODP_SUPPORT_IMPLICIT = 1 << 1
)

// enum ib_uverbs_odp_transport_cap_bits of rdma/ib_user_verbs.h. Since Linux
// 7.3.
const (
	IB_UVERBS_ODP_SUPPORT_SEND         = 1 << 0
	IB_UVERBS_ODP_SUPPORT_RECV         = 1 << 1
	IB_UVERBS_ODP_SUPPORT_WRITE        = 1 << 2
	IB_UVERBS_ODP_SUPPORT_READ         = 1 << 3
	IB_UVERBS_ODP_SUPPORT_ATOMIC       = 1 << 4
	IB_UVERBS_ODP_SUPPORT_SRQ_RECV     = 1 << 5
	IB_UVERBS_ODP_SUPPORT_FLUSH        = 1 << 6
	IB_UVERBS_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7
)

// enum ib_uverbs_device_cap_flags of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_DEVICE_RESIZE_MAX_WR         = 1 << 0
	IB_UVERBS_DEVICE_BAD_PKEY_CNTR         = 1 << 1
	IB_UVERBS_DEVICE_BAD_QKEY_CNTR         = 1 << 2
	IB_UVERBS_DEVICE_RAW_MULTI             = 1 << 3
	IB_UVERBS_DEVICE_AUTO_PATH_MIG         = 1 << 4
	IB_UVERBS_DEVICE_CHANGE_PHY_PORT       = 1 << 5
	IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE    = 1 << 6
	IB_UVERBS_DEVICE_CURR_QP_STATE_MOD     = 1 << 7
	IB_UVERBS_DEVICE_SHUTDOWN_PORT         = 1 << 8
	IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT     = 1 << 10
	IB_UVERBS_DEVICE_SYS_IMAGE_GUID        = 1 << 11
	IB_UVERBS_DEVICE_RC_RNR_NAK_GEN        = 1 << 12
	IB_UVERBS_DEVICE_SRQ_RESIZE            = 1 << 13
	IB_UVERBS_DEVICE_N_NOTIFY_CQ           = 1 << 14
	IB_UVERBS_DEVICE_MEM_WINDOW            = 1 << 17
	IB_UVERBS_DEVICE_UD_IP_CSUM            = 1 << 18
	IB_UVERBS_DEVICE_XRC                   = 1 << 20
	IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS    = 1 << 21
	IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A    = 1 << 23
	IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B    = 1 << 24
	IB_UVERBS_DEVICE_RC_IP_CSUM            = 1 << 25
	IB_UVERBS_DEVICE_RAW_IP_CSUM           = 1 << 26
	IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING = 1 << 29
	IB_UVERBS_DEVICE_RAW_SCATTER_FCS       = 1 << 34
	IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING = 1 << 36
	IB_UVERBS_DEVICE_FLUSH_GLOBAL          = 1 << 38 // since Linux 6.12
	IB_UVERBS_DEVICE_FLUSH_PERSISTENT      = 1 << 39 // since Linux 6.12
	IB_UVERBS_DEVICE_ATOMIC_WRITE          = 1 << 40 // since Linux 6.12
	IB_UVERBS_DEVICE_CC_DMA_BOUNCE         = 1 << 41 // since Linux 7.3
)

// enum ib_uverbs_raw_packet_caps of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0
	IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS     = 1 << 1
	IB_UVERBS_RAW_PACKET_CAP_IP_CSUM         = 1 << 2
	IB_UVERBS_RAW_PACKET_CAP_DELAY_DROP      = 1 << 3
)

// UverbsAsyncEventDesc mirrors struct ib_uverbs_async_event_desc (rdma/ib_user_verbs.h), the result
// of a read of the asynchronous event file.
type UverbsAsyncEventDesc struct {
	_         structs.HostLayout
	Element   uint64 // the user handle of the object, or a port number
	EventType uint32 // enum ib_event_type
	Reserved  uint32
}

// UverbsCQModerationCaps mirrors struct ib_uverbs_cq_moderation_caps
// (rdma/ib_user_verbs.h).
type UverbsCQModerationCaps struct {
	_                     structs.HostLayout
	MaxCQModerationCount  uint16
	MaxCQModerationPeriod uint16
	Reserved              uint32
}

// UverbsCmdHdr mirrors struct ib_uverbs_cmd_hdr (rdma/ib_user_verbs.h), the start of every command
// of write(2).
type UverbsCmdHdr struct {
	_        structs.HostLayout
	Command  uint32 // IB_USER_VERBS_CMD_...
	InWords  uint16 // length of header and command, in 32-bit words
	OutWords uint16 // length of the answer, in 32-bit words
}

// UverbsExCmdHdr mirrors struct ib_uverbs_ex_cmd_hdr (rdma/ib_user_verbs.h), the header after
// UverbsCmdHdr in an extended command. Both then count in words of eight bytes.
type UverbsExCmdHdr struct {
	_                structs.HostLayout
	Response         Pointer
	ProviderInWords  uint16
	ProviderOutWords uint16
	CmdHdrReserved   uint32
}

// UverbsGetContext mirrors struct ib_uverbs_get_context (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_GET_CONTEXT.
type UverbsGetContext struct {
	_        structs.HostLayout
	Response Pointer
}

// UverbsGetContextResp mirrors struct ib_uverbs_get_context_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_CMD_GET_CONTEXT.
type UverbsGetContextResp struct {
	_              structs.HostLayout
	AsyncFD        uint32
	NumCompVectors uint32
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

// UverbsExQueryDevice mirrors struct ib_uverbs_ex_query_device
// (rdma/ib_user_verbs.h), the request of IB_USER_VERBS_EX_CMD_QUERY_DEVICE.
type UverbsExQueryDevice struct {
	_        structs.HostLayout
	CompMask uint32
	Reserved uint32
}

// UverbsODPCaps mirrors struct ib_uverbs_odp_caps (rdma/ib_user_verbs.h), what on-demand paging the
// device has, in all and for each transport.
type UverbsODPCaps struct {
	_           structs.HostLayout
	GeneralCaps uint64
	RCODPCaps   uint32
	UCODPCaps   uint32
	UDODPCaps   uint32
	Reserved    uint32
}

// UverbsRSSCaps mirrors struct ib_uverbs_rss_caps (rdma/ib_user_verbs.h), the device's capabilities
// for spreading received packets.
type UverbsRSSCaps struct {
	_                          structs.HostLayout
	SupportedQPTs              uint32
	MaxRWQIndirectionTables    uint32
	MaxRWQIndirectionTableSize uint32
	Reserved                   uint32
}

// UverbsTMCaps mirrors struct ib_uverbs_tm_caps (rdma/ib_user_verbs.h), the device's tag matching
// capabilities.
type UverbsTMCaps struct {
	_              structs.HostLayout
	MaxRndvHdrSize uint32
	MaxNumTags     uint32
	Flags          uint32
	MaxOps         uint32
	MaxSGE         uint32
	Reserved       uint32
}

// UverbsExQueryDeviceResp mirrors struct ib_uverbs_ex_query_device_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_EX_CMD_QUERY_DEVICE.
type UverbsExQueryDeviceResp struct {
	_                structs.HostLayout
	Base             UverbsQueryDeviceResp
	CompMask         uint32
	ResponseLength   uint32
	ODPCaps          UverbsODPCaps
	TimestampMask    uint64
	HCACoreClock     uint64
	DeviceCapFlagsEx uint64
	RSSCaps          UverbsRSSCaps
	MaxWQTypeRQ      uint32
	RawPacketCaps    uint32
	TMCaps           UverbsTMCaps
	CQModerationCaps UverbsCQModerationCaps
	MaxDMSize        uint64
	XRCODPCaps       uint32
	Reserved         uint32
}

// UverbsQueryPort mirrors struct ib_uverbs_query_port (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_QUERY_PORT.
type UverbsQueryPort struct {
	_        structs.HostLayout
	Response Pointer
	PortNum  uint8
	Reserved [7]uint8
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

// UverbsClockInfo mirrors struct ib_uverbs_clock_info (rdma/ib_user_verbs.h), a page that the
// kernel keeps up to date, to turn time stamps of the device into time. Older headers have it as
// struct mlx5_ib_clock_info in rdma/mlx5-abi.h.
type UverbsClockInfo struct {
	_              structs.HostLayout
	Sign           uint32
	Resv           uint32
	NSec           uint64
	Cycles         uint64
	Frac           uint64
	Mult           uint32
	Shift          uint32
	Mask           uint64
	OverflowPeriod uint64
}
