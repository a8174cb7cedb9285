// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// MLX5_IB_UVERBS_ABI_VERSION is the version of rdma/mlx5-abi.h.
const MLX5_IB_UVERBS_ABI_VERSION = 1

// Mlx5CreateQP.Flags, from rdma/mlx5-abi.h.
const (
	MLX5_QP_FLAG_SIGNATURE                = 1 << 0
	MLX5_QP_FLAG_SCATTER_CQE              = 1 << 1
	MLX5_QP_FLAG_TUNNEL_OFFLOADS          = 1 << 2
	MLX5_QP_FLAG_BFREG_INDEX              = 1 << 3
	MLX5_QP_FLAG_TYPE_DCT                 = 1 << 4
	MLX5_QP_FLAG_TYPE_DCI                 = 1 << 5
	MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC     = 1 << 6
	MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC     = 1 << 7
	MLX5_QP_FLAG_ALLOW_SCATTER_CQE        = 1 << 8
	MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE = 1 << 9
	MLX5_QP_FLAG_UAR_PAGE_INDEX           = 1 << 10
	MLX5_QP_FLAG_DCI_STREAM               = 1 << 11
)

// Mlx5CreateSRQ.Flags, from rdma/mlx5-abi.h.
const MLX5_SRQ_FLAG_SIGNATURE = 1 << 0

// Mlx5CreateWQ.Flags, from rdma/mlx5-abi.h.
const MLX5_WQ_FLAG_SIGNATURE = 1 << 0

// enum mlx5_lib_caps of rdma/mlx5-abi.h.
const (
	MLX5_LIB_CAP_4K_UAR  = 1 << 0
	MLX5_LIB_CAP_DYN_UAR = 1 << 1
)

// enum mlx5_ib_alloc_uctx_v2_flags of rdma/mlx5-abi.h.
const MLX5_IB_ALLOC_UCTX_DEVX = 1 << 0

// enum mlx5_ib_alloc_ucontext_resp_mask of rdma/mlx5-abi.h.
const (
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET = 1 << 0
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY    = 1 << 1
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE               = 1 << 2
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS           = 1 << 3
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS      = 1 << 4
	MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG   = 1 << 5
)

// enum mlx5_user_cmds_supp_uhw of rdma/mlx5-abi.h.
const (
	MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE = 1 << 0
	MLX5_USER_CMDS_SUPP_UHW_CREATE_AH    = 1 << 1
)

// enum mlx5_user_inline_mode of rdma/mlx5-abi.h.
const (
	MLX5_USER_INLINE_MODE_NA = iota
	MLX5_USER_INLINE_MODE_NONE
	MLX5_USER_INLINE_MODE_L2
	MLX5_USER_INLINE_MODE_IP
	MLX5_USER_INLINE_MODE_TCP_UDP
)

// Mlx5AllocUcontextResp.FlowActionFlags, from rdma/mlx5-abi.h.
const (
	MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM              = 1 << 0
	MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA = 1 << 1
	MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING = 1 << 2
	MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_FULL_OFFLOAD = 1 << 3
	MLX5_USER_ALLOC_UCONTEXT_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN = 1 << 4
)

// enum mlx5_ib_cqe_comp_res_format of rdma/mlx5-abi.h.
const (
	MLX5_IB_CQE_RES_FORMAT_HASH        = 1 << 0
	MLX5_IB_CQE_RES_FORMAT_CSUM        = 1 << 1
	MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX = 1 << 2
)

// enum mlx5_ib_packet_pacing_cap_flags of rdma/mlx5-abi.h.
const MLX5_IB_PP_SUPPORT_BURST = 1 << 0

// enum mlx5_ib_mpw_caps of rdma/mlx5-abi.h.
const (
	MPW_RESERVED         = 1 << 0
	MLX5_IB_ALLOW_MPW    = 1 << 1
	MLX5_IB_SUPPORT_EMPW = 1 << 2
)

// enum mlx5_ib_sw_parsing_offloads of rdma/mlx5-abi.h.
const (
	MLX5_IB_SW_PARSING      = 1 << 0
	MLX5_IB_SW_PARSING_CSUM = 1 << 1
	MLX5_IB_SW_PARSING_LSO  = 1 << 2
)

// enum mlx5_ib_query_dev_resp_flags of rdma/mlx5-abi.h.
const (
	MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP      = 1 << 0
	MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD       = 1 << 1
	MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE = 1 << 2
	MLX5_IB_QUERY_DEV_RESP_FLAGS_SCAT2CQE_DCT       = 1 << 3
	MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP             = 1 << 4 // since Linux 7.3
)

// enum mlx5_ib_tunnel_offloads of rdma/mlx5-abi.h.
const (
	MLX5_IB_TUNNELED_OFFLOADS_VXLAN    = 1 << 0
	MLX5_IB_TUNNELED_OFFLOADS_GRE      = 1 << 1
	MLX5_IB_TUNNELED_OFFLOADS_GENEVE   = 1 << 2
	MLX5_IB_TUNNELED_OFFLOADS_MPLS_GRE = 1 << 3
	MLX5_IB_TUNNELED_OFFLOADS_MPLS_UDP = 1 << 4
)

// enum mlx5_ib_create_cq_flags of rdma/mlx5-abi.h.
const (
	MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD   = 1 << 0
	MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX = 1 << 1
	MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS   = 1 << 2
)

// enum mlx5_rx_hash_function_flags of rdma/mlx5-abi.h.
const MLX5_RX_HASH_FUNC_TOEPLITZ = 1 << 0

// enum mlx5_rx_hash_fields of rdma/mlx5-abi.h.
const (
	MLX5_RX_HASH_SRC_IPV4     = 1 << 0
	MLX5_RX_HASH_DST_IPV4     = 1 << 1
	MLX5_RX_HASH_SRC_IPV6     = 1 << 2
	MLX5_RX_HASH_DST_IPV6     = 1 << 3
	MLX5_RX_HASH_SRC_PORT_TCP = 1 << 4
	MLX5_RX_HASH_DST_PORT_TCP = 1 << 5
	MLX5_RX_HASH_SRC_PORT_UDP = 1 << 6
	MLX5_RX_HASH_DST_PORT_UDP = 1 << 7
	MLX5_RX_HASH_IPSEC_SPI    = 1 << 8
	MLX5_RX_HASH_INNER        = 1 << 31
)

// enum mlx5_ib_create_qp_resp_mask of rdma/mlx5-abi.h.
const (
	MLX5_IB_CREATE_QP_RESP_MASK_TIRN         = 1 << 0
	MLX5_IB_CREATE_QP_RESP_MASK_TISN         = 1 << 1
	MLX5_IB_CREATE_QP_RESP_MASK_RQN          = 1 << 2
	MLX5_IB_CREATE_QP_RESP_MASK_SQN          = 1 << 3
	MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR = 1 << 4
)

// enum mlx5_ib_create_wq_mask of rdma/mlx5-abi.h.
const MLX5_IB_CREATE_WQ_STRIDING_RQ = 1 << 0

// enum mlx5_ib_modify_qp_mask of rdma/mlx5-abi.h. Since Linux 7.3.
const MLX5_IB_MODIFY_QP_OOO_DP = 1 << 0

// enum mlx5_ib_mmap_cmd of rdma/mlx5-abi.h.
const (
	MLX5_IB_MMAP_REGULAR_PAGE         = 0
	MLX5_IB_MMAP_GET_CONTIGUOUS_PAGES = 1
	MLX5_IB_MMAP_WC_PAGE              = 2
	MLX5_IB_MMAP_NC_PAGE              = 3
	MLX5_IB_MMAP_CORE_CLOCK           = 5
	MLX5_IB_MMAP_ALLOC_WC             = 6
	MLX5_IB_MMAP_CLOCK_INFO           = 7
	MLX5_IB_MMAP_DEVICE_MEM           = 8
)

// Bits of UverbsClockInfo.Sign, from rdma/mlx5-abi.h.
const MLX5_IB_CLOCK_INFO_KERNEL_UPDATING = 1 << 0

// Mlx5AllocUcontextResp.ClockInfoVersions, as bit numbers, from
// rdma/mlx5-abi.h.
const MLX5_IB_CLOCK_INFO_V1 = 0

// Mlx5AllocUcontextReq mirrors struct mlx5_ib_alloc_ucontext_req (rdma/mlx5-abi.h), the arguments
// of opening a context, in their first form.
type Mlx5AllocUcontextReq struct {
	_                   structs.HostLayout
	TotalNumBFRegs      uint32
	NumLowLatencyBFRegs uint32
}

// Mlx5AllocUcontextReqV2 mirrors struct mlx5_ib_alloc_ucontext_req_v2 (rdma/mlx5-abi.h), the
// arguments of opening a context.
type Mlx5AllocUcontextReqV2 struct {
	_                   structs.HostLayout
	TotalNumBFRegs      uint32
	NumLowLatencyBFRegs uint32
	Flags               uint32
	CompMask            uint32
	MaxCQEVersion       uint8
	Reserved0           uint8
	Reserved1           uint16
	Reserved2           uint32
	LibCaps             uint64
}

// Mlx5AllocUcontextResp mirrors struct mlx5_ib_alloc_ucontext_resp (rdma/mlx5-abi.h), the
// properties of a new context.
type Mlx5AllocUcontextResp struct {
	_                  structs.HostLayout
	QPTabSize          uint32
	BFRegSize          uint32
	TotBFRegs          uint32
	CacheLineSize      uint32
	MaxSQDescSz        uint16
	MaxRQDescSz        uint16
	MaxSendWQEBB       uint32
	MaxRecvWR          uint32
	MaxSRQRecvWR       uint32
	NumPorts           uint16
	FlowActionFlags    uint16
	CompMask           uint32
	ResponseLength     uint32
	CQEVersion         uint8
	CmdsSuppUHW        uint8
	EthMinInline       uint8
	ClockInfoVersions  uint8
	HCACoreClockOffset uint64
	LogUARSize         uint32
	NumUARsPerPage     uint32
	NumDynBFRegs       uint32
	DumpFillMKey       uint32
}

// Mlx5AllocPDResp mirrors struct mlx5_ib_alloc_pd_resp (rdma/mlx5-abi.h), the number of a new PD.
type Mlx5AllocPDResp struct {
	_   structs.HostLayout
	PDN uint32
}

// Mlx5TSOCaps mirrors struct mlx5_ib_tso_caps (rdma/mlx5-abi.h), the limits of
// TCP segmentation.
type Mlx5TSOCaps struct {
	_             structs.HostLayout
	MaxTSO        uint32
	SupportedQPTs uint32
}

// Mlx5RSSCaps mirrors struct mlx5_ib_rss_caps (rdma/mlx5-abi.h), the fields that the device can
// hash.
type Mlx5RSSCaps struct {
	_                structs.HostLayout
	RXHashFieldsMask uint64
	RXHashFunction   uint8
	Reserved         [7]uint8
}

// Mlx5CQECompCaps mirrors struct mlx5_ib_cqe_comp_caps (rdma/mlx5-abi.h), the limits of compressed
// completions.
type Mlx5CQECompCaps struct {
	_               structs.HostLayout
	MaxNum          uint32
	SupportedFormat uint32
}

// Mlx5PacketPacingCaps mirrors struct mlx5_packet_pacing_caps
// (rdma/mlx5-abi.h), the limits of send rates.
type Mlx5PacketPacingCaps struct {
	_              structs.HostLayout
	QPRateLimitMin uint32
	QPRateLimitMax uint32
	SupportedQPTs  uint32
	CapFlags       uint8
	Reserved       [3]uint8
}

// Mlx5SwParsingCaps mirrors struct mlx5_ib_sw_parsing_caps (rdma/mlx5-abi.h), the headers that
// software may point out.
type Mlx5SwParsingCaps struct {
	_                 structs.HostLayout
	SwParsingOffloads uint32
	SupportedQPTs     uint32
}

// Mlx5StridingRQCaps mirrors struct mlx5_ib_striding_rq_caps (rdma/mlx5-abi.h),
// the limits of receive queues with strides.
type Mlx5StridingRQCaps struct {
	_                            structs.HostLayout
	MinSingleStrideLogNumOfBytes uint32
	MaxSingleStrideLogNumOfBytes uint32
	MinSingleWQELogNumOfStrides  uint32
	MaxSingleWQELogNumOfStrides  uint32
	SupportedQPTs                uint32
	Reserved                     uint32
}

// Mlx5DCIStreamsCaps mirrors struct mlx5_ib_dci_streams_caps (rdma/mlx5-abi.h),
// the limits of the streams of a DCI.
type Mlx5DCIStreamsCaps struct {
	_                  structs.HostLayout
	MaxLogNumConcurent uint8
	MaxLogNumErrored   uint8
}

// Mlx5QueryDeviceResp mirrors struct mlx5_ib_query_device_resp (rdma/mlx5-abi.h), the driver's own
// capabilities of the device.
type Mlx5QueryDeviceResp struct {
	_                             structs.HostLayout
	CompMask                      uint32
	ResponseLength                uint32
	TSOCaps                       Mlx5TSOCaps
	RSSCaps                       Mlx5RSSCaps
	CQECompCaps                   Mlx5CQECompCaps
	PacketPacingCaps              Mlx5PacketPacingCaps
	Mlx5IBSupportMultiPktSendWQEs uint32
	Flags                         uint32
	SwParsingCaps                 Mlx5SwParsingCaps
	StridingRQCaps                Mlx5StridingRQCaps
	TunnelOffloadsCaps            uint32
	DCIStreamsCaps                Mlx5DCIStreamsCaps
	Reserved                      uint16
	RegC0                         Mlx5UapiReg // since Linux 6.12
}

// Mlx5CreateCQ mirrors struct mlx5_ib_create_cq (rdma/mlx5-abi.h), the memory
// of a new CQ.
type Mlx5CreateCQ struct {
	_                structs.HostLayout
	BufAddr          Pointer
	DBAddr           Pointer
	CQESize          uint32
	CQECompEn        uint8
	CQECompResFormat uint8
	Flags            uint16
	UARPageIndex     uint16
	Reserved0        uint16
	Reserved1        uint32
}

// Mlx5CreateCQResp mirrors struct mlx5_ib_create_cq_resp (rdma/mlx5-abi.h), the number of a new CQ.
type Mlx5CreateCQResp struct {
	_        structs.HostLayout
	CQN      uint32
	Reserved uint32
}

// Mlx5ResizeCQ mirrors struct mlx5_ib_resize_cq (rdma/mlx5-abi.h), the new
// memory of a CQ.
type Mlx5ResizeCQ struct {
	_         structs.HostLayout
	BufAddr   Pointer
	CQESize   uint16
	Reserved0 uint16
	Reserved1 uint32
}

// Mlx5CreateSRQ mirrors struct mlx5_ib_create_srq (rdma/mlx5-abi.h), the memory
// of a new SRQ.
type Mlx5CreateSRQ struct {
	_         structs.HostLayout
	BufAddr   Pointer
	DBAddr    Pointer
	Flags     uint32
	Reserved0 uint32
	UIdx      uint32
	Reserved1 uint32
}

// Mlx5CreateSRQResp mirrors struct mlx5_ib_create_srq_resp (rdma/mlx5-abi.h),
// the number of a new SRQ.
type Mlx5CreateSRQResp struct {
	_        structs.HostLayout
	SRQN     uint32
	Reserved uint32
}

// Mlx5CreateQPDCIStreams mirrors struct mlx5_ib_create_qp_dci_streams
// (rdma/mlx5-abi.h), the streams of a DCI.
type Mlx5CreateQPDCIStreams struct {
	_               structs.HostLayout
	LogNumConcurent uint8
	LogNumErrored   uint8
}

// Mlx5CreateQP mirrors struct mlx5_ib_create_qp (rdma/mlx5-abi.h), the memory
// and the sizes of a new QP.
type Mlx5CreateQP struct {
	_          structs.HostLayout
	BufAddr    Pointer
	DBAddr     Pointer
	SQWQECount uint32
	RQWQECount uint32
	RQWQEShift uint32
	Flags      uint32
	UIdx       uint32
	BFRegIndex uint32
	SQBufAddr  Pointer // union with __u64 access_key
	ECEOptions uint32
	DCIStreams Mlx5CreateQPDCIStreams
	Reserved   uint16
}

// Mlx5CreateQPRSS mirrors struct mlx5_ib_create_qp_rss (rdma/mlx5-abi.h), the hash of a QP that
// spreads received packets.
type Mlx5CreateQPRSS struct {
	_                structs.HostLayout
	RXHashFieldsMask uint64
	RXHashFunction   uint8
	RXKeyLen         uint8
	Reserved         [6]uint8
	RXHashKey        [128]uint8
	CompMask         uint32
	Flags            uint32
}

// Mlx5CreateQPResp mirrors struct mlx5_ib_create_qp_resp (rdma/mlx5-abi.h), the numbers of a new
// QP.
type Mlx5CreateQPResp struct {
	_          structs.HostLayout
	BFRegIndex uint32
	ECEOptions uint32
	CompMask   uint32
	TIRN       uint32
	TISN       uint32
	RQN        uint32
	SQN        uint32
	Reserved1  uint32
	TIRICMAddr uint64
}

// Mlx5AllocMW mirrors struct mlx5_ib_alloc_mw (rdma/mlx5-abi.h), the size of a
// new memory window.
type Mlx5AllocMW struct {
	_         structs.HostLayout
	CompMask  uint32
	NumKLMs   uint8
	Reserved1 uint8
	Reserved2 uint16
}

// Mlx5CreateWQ mirrors struct mlx5_ib_create_wq (rdma/mlx5-abi.h), the memory
// and the sizes of a new receive work queue.
type Mlx5CreateWQ struct {
	_                         structs.HostLayout
	BufAddr                   Pointer
	DBAddr                    Pointer
	RQWQECount                uint32
	RQWQEShift                uint32
	UserIndex                 uint32
	Flags                     uint32
	CompMask                  uint32
	SingleStrideLogNumOfBytes uint32
	SingleWQELogNumOfStrides  uint32
	TwoByteShiftEn            uint32
}

// Mlx5CreateAHResp mirrors struct mlx5_ib_create_ah_resp (rdma/mlx5-abi.h), the MAC address that
// the kernel found.
type Mlx5CreateAHResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	DMAC           [6]uint8
	Reserved       [6]uint8
}

// Mlx5BurstInfo mirrors struct mlx5_ib_burst_info (rdma/mlx5-abi.h), the burst limits of a limited
// send rate.
type Mlx5BurstInfo struct {
	_            structs.HostLayout
	MaxBurstSz   uint32
	TypicalPktSz uint16
	Reserved     uint16
}

// Mlx5ModifyQP mirrors struct mlx5_ib_modify_qp (rdma/mlx5-abi.h), the changes beyond the common
// attributes.
type Mlx5ModifyQP struct {
	_          structs.HostLayout
	CompMask   uint32
	BurstInfo  Mlx5BurstInfo
	ECEOptions uint32
}

// Mlx5ModifyQPResp mirrors struct mlx5_ib_modify_qp_resp (rdma/mlx5-abi.h), the number of a DCT,
// and the options of ECE.
type Mlx5ModifyQPResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	DCTN           uint32
	ECEOptions     uint32
	Reserved       uint32
}

// Mlx5CreateWQResp mirrors struct mlx5_ib_create_wq_resp (rdma/mlx5-abi.h), the length of the
// response.
type Mlx5CreateWQResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	Reserved       uint32
}

// Mlx5CreateRWQIndTblResp mirrors struct mlx5_ib_create_rwq_ind_tbl_resp (rdma/mlx5-abi.h), the
// length of the response.
type Mlx5CreateRWQIndTblResp struct {
	_              structs.HostLayout
	ResponseLength uint32
	Reserved       uint32
}

// Mlx5ModifyWQ mirrors struct mlx5_ib_modify_wq (rdma/mlx5-abi.h), the changes beyond the common
// attributes.
type Mlx5ModifyWQ struct {
	_        structs.HostLayout
	CompMask uint32
	Reserved uint32
}

// Mlx5FlowCountersDesc mirrors struct mlx5_ib_flow_counters_desc (rdma/mlx5-abi.h), the index of
// each counter.
type Mlx5FlowCountersDesc struct {
	_           structs.HostLayout
	Description uint32
	Index       uint32
}

// Mlx5FlowCountersData mirrors struct mlx5_ib_flow_counters_data (rdma/mlx5-abi.h), the address of
// Ncounters of [Mlx5FlowCountersDesc].
type Mlx5FlowCountersData struct {
	_            structs.HostLayout
	CountersData Pointer
	Ncounters    uint32
	Reserved     uint32
}

// Mlx5CreateFlow mirrors struct mlx5_ib_create_flow (rdma/mlx5-abi.h) up to its
// flexible end, the counters of a flow.
type Mlx5CreateFlow struct {
	_             structs.HostLayout
	NcountersData uint32
	Reserved      uint32
}
