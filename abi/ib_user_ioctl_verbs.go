// SPDX-License-Identifier: Apache-2.0

package abi

import (
	"strconv"
	"structs"
)

// Bounds of the access flags that a kernel may ignore, from
// rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_ACCESS_OPTIONAL_FIRST = 1 << 20
	IB_UVERBS_ACCESS_OPTIONAL_LAST  = 1 << 29
)

// enum ib_uverbs_core_support of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS = 1 << 0
	IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA       = 1 << 1 // since Linux 7.3
)

// enum ib_uverbs_access_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_ACCESS_LOCAL_WRITE      = 1 << 0
	IB_UVERBS_ACCESS_REMOTE_WRITE     = 1 << 1
	IB_UVERBS_ACCESS_REMOTE_READ      = 1 << 2
	IB_UVERBS_ACCESS_REMOTE_ATOMIC    = 1 << 3
	IB_UVERBS_ACCESS_MW_BIND          = 1 << 4
	IB_UVERBS_ACCESS_ZERO_BASED       = 1 << 5
	IB_UVERBS_ACCESS_ON_DEMAND        = 1 << 6
	IB_UVERBS_ACCESS_HUGETLB          = 1 << 7
	IB_UVERBS_ACCESS_FLUSH_GLOBAL     = 1 << 8 // since Linux 6.12
	IB_UVERBS_ACCESS_FLUSH_PERSISTENT = 1 << 9 // since Linux 6.12

	IB_UVERBS_ACCESS_RELAXED_ORDERING = IB_UVERBS_ACCESS_OPTIONAL_FIRST
	IB_UVERBS_ACCESS_OPTIONAL_RANGE   = (IB_UVERBS_ACCESS_OPTIONAL_LAST<<1 - 1) &^ (IB_UVERBS_ACCESS_OPTIONAL_FIRST - 1)
)

// enum ib_uverbs_srq_type of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_SRQT_BASIC = iota
	IB_UVERBS_SRQT_XRC
	IB_UVERBS_SRQT_TM
)

// enum ib_uverbs_wq_type of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_WQT_RQ = 0

// enum ib_uverbs_wq_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING       = 1 << 0
	IB_UVERBS_WQ_FLAGS_SCATTER_FCS           = 1 << 1
	IB_UVERBS_WQ_FLAGS_DELAY_DROP            = 1 << 2
	IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3
)

// enum ib_uverbs_qp_type of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_QPT_RC         = 2
	IB_UVERBS_QPT_UC         = 3
	IB_UVERBS_QPT_UD         = 4
	IB_UVERBS_QPT_RAW_PACKET = 8
	IB_UVERBS_QPT_XRC_INI    = 9
	IB_UVERBS_QPT_XRC_TGT    = 10
	IB_UVERBS_QPT_DRIVER     = 0xff
)

// enum ib_uverbs_qp_create_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK = 1 << 1
	IB_UVERBS_QP_CREATE_SCATTER_FCS              = 1 << 8
	IB_UVERBS_QP_CREATE_CVLAN_STRIPPING          = 1 << 9
	IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING    = 1 << 11
	IB_UVERBS_QP_CREATE_SQ_SIG_ALL               = 1 << 12
)

// enum ib_uverbs_query_port_cap_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_PCF_SM                              = 1 << 1
	IB_UVERBS_PCF_NOTICE_SUP                      = 1 << 2
	IB_UVERBS_PCF_TRAP_SUP                        = 1 << 3
	IB_UVERBS_PCF_OPT_IPD_SUP                     = 1 << 4
	IB_UVERBS_PCF_AUTO_MIGR_SUP                   = 1 << 5
	IB_UVERBS_PCF_SL_MAP_SUP                      = 1 << 6
	IB_UVERBS_PCF_MKEY_NVRAM                      = 1 << 7
	IB_UVERBS_PCF_PKEY_NVRAM                      = 1 << 8
	IB_UVERBS_PCF_LED_INFO_SUP                    = 1 << 9
	IB_UVERBS_PCF_SM_DISABLED                     = 1 << 10
	IB_UVERBS_PCF_SYS_IMAGE_GUID_SUP              = 1 << 11
	IB_UVERBS_PCF_PKEY_SW_EXT_PORT_TRAP_SUP       = 1 << 12
	IB_UVERBS_PCF_EXTENDED_SPEEDS_SUP             = 1 << 14
	IB_UVERBS_PCF_CM_SUP                          = 1 << 16
	IB_UVERBS_PCF_SNMP_TUNNEL_SUP                 = 1 << 17
	IB_UVERBS_PCF_REINIT_SUP                      = 1 << 18
	IB_UVERBS_PCF_DEVICE_MGMT_SUP                 = 1 << 19
	IB_UVERBS_PCF_VENDOR_CLASS_SUP                = 1 << 20
	IB_UVERBS_PCF_DR_NOTICE_SUP                   = 1 << 21
	IB_UVERBS_PCF_CAP_MASK_NOTICE_SUP             = 1 << 22
	IB_UVERBS_PCF_BOOT_MGMT_SUP                   = 1 << 23
	IB_UVERBS_PCF_LINK_LATENCY_SUP                = 1 << 24
	IB_UVERBS_PCF_CLIENT_REG_SUP                  = 1 << 25
	IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP      = 1 << 27
	IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP  = 1 << 28
	IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP = 1 << 29
	IB_UVERBS_PCF_MCAST_FDB_TOP_SUP               = 1 << 30
	IB_UVERBS_PCF_HIERARCHY_INFO_SUP              = 1 << 31
	IB_UVERBS_PCF_IP_BASED_GIDS                   = 1 << 26
)

// enum ib_uverbs_query_port_flags of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_QPF_GRH_REQUIRED = 1 << 0

// enum ib_uverbs_flow_action_esp_keymat of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM = 0

// enum ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo of
// rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ = 0

// enum ib_uverbs_flow_action_esp_replay of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE = iota
	IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP
)

// enum ib_uverbs_flow_action_esp_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO  = 0
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD   = 1 << 0
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL         = 0
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT      = 1 << 1
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT        = 0
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT        = 1 << 2
	IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW = 1 << 3
)

// enum ib_uverbs_read_counters_flags of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_READ_COUNTERS_PREFER_CACHED = 1 << 0

// enum ib_uverbs_advise_mr_advice of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH = iota
	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
)

// enum ib_uverbs_advise_mr_flag of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_ADVISE_MR_FLAG_FLUSH = 1 << 0

// DriverID is enum rdma_driver_id (rdma/ib_user_ioctl_verbs.h): which kernel
// driver, and so which user-space half, a device belongs to.
type DriverID uint32

// enum rdma_driver_id of rdma/ib_user_ioctl_verbs.h.
const (
	RDMA_DRIVER_UNKNOWN    DriverID = 0
	RDMA_DRIVER_MLX5       DriverID = 1
	RDMA_DRIVER_MLX4       DriverID = 2
	RDMA_DRIVER_CXGB3      DriverID = 3
	RDMA_DRIVER_CXGB4      DriverID = 4
	RDMA_DRIVER_MTHCA      DriverID = 5
	RDMA_DRIVER_BNXT_RE    DriverID = 6
	RDMA_DRIVER_OCRDMA     DriverID = 7
	RDMA_DRIVER_NES        DriverID = 8
	RDMA_DRIVER_I40IW      DriverID = 9
	RDMA_DRIVER_IRDMA      DriverID = RDMA_DRIVER_I40IW
	RDMA_DRIVER_VMW_PVRDMA DriverID = 10
	RDMA_DRIVER_QEDR       DriverID = 11
	RDMA_DRIVER_HNS        DriverID = 12
	RDMA_DRIVER_USNIC      DriverID = 13
	RDMA_DRIVER_RXE        DriverID = 14
	RDMA_DRIVER_HFI1       DriverID = 15
	RDMA_DRIVER_QIB        DriverID = 16
	RDMA_DRIVER_EFA        DriverID = 17
	RDMA_DRIVER_SIW        DriverID = 18
	RDMA_DRIVER_ERDMA      DriverID = 19
	RDMA_DRIVER_MANA       DriverID = 20 // since Linux 6.12
	RDMA_DRIVER_IONIC      DriverID = 21 // since Linux 7.3
)

// String returns the name of the kernel module, as "rxe" or "mlx5".
func (d DriverID) String() string {
	names := [...]string{
		"unknown", "mlx5", "mlx4", "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma", "nes", "irdma",
		"vmw_pvrdma", "qedr", "hns", "usnic", "rxe", "hfi1", "qib", "efa", "siw", "erdma",
		"mana", "ionic",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return "driver " + strconv.Itoa(int(d))
}

// enum ib_uverbs_gid_type of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_GID_TYPE_IB      = 0
	IB_UVERBS_GID_TYPE_ROCE_V1 = 1
	IB_UVERBS_GID_TYPE_ROCE_V2 = 2
)

// enum ib_uverbs_buffer_type of rdma/ib_user_ioctl_verbs.h. Since Linux 7.3.
const (
	IB_UVERBS_BUFFER_TYPE_DMABUF = iota
	IB_UVERBS_BUFFER_TYPE_VA
)

// enum ib_uverbs_comp_cntr_entry of rdma/ib_user_ioctl_verbs.h. Since Linux
// 7.3.
const (
	IB_UVERBS_COMP_CNTR_ENTRY_COMP = iota
	IB_UVERBS_COMP_CNTR_ENTRY_ERR
)

// enum ib_uverbs_comp_cntr_modify_op of rdma/ib_user_ioctl_verbs.h. Since Linux
// 7.3.
const (
	IB_UVERBS_COMP_CNTR_MODIFY_OP_SET = iota
	IB_UVERBS_COMP_CNTR_MODIFY_OP_INC
)

// enum ib_uverbs_qp_attach_comp_cntr_op of rdma/ib_user_ioctl_verbs.h. Since
// Linux 7.3.
const (
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND              = 1 << 0
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV              = 1 << 1
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ         = 1 << 2
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ  = 1 << 3
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE        = 1 << 4
	IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5
)

// UverbsFlowActionESPKeymatAESGCM mirrors struct ib_uverbs_flow_action_esp_keymat_aes_gcm
// (rdma/ib_user_ioctl_verbs.h), key and initial vector of AES-GCM.
type UverbsFlowActionESPKeymatAESGCM struct {
	_      structs.HostLayout
	IV     uint64
	IVAlgo uint32
	Salt   uint32
	ICVLen uint32
	KeyLen uint32
	AESKey [8]uint32
}

// UverbsFlowActionESPReplayBmp mirrors struct ib_uverbs_flow_action_esp_replay_bmp
// (rdma/ib_user_ioctl_verbs.h), the size of the window against replays.
type UverbsFlowActionESPReplayBmp struct {
	_    structs.HostLayout
	Size uint32
}

// UverbsFlowActionESPEncap mirrors struct ib_uverbs_flow_action_esp_encap
// (rdma/ib_user_ioctl_verbs.h), one header around the encrypted packet, in a
// list.
type UverbsFlowActionESPEncap struct {
	_       structs.HostLayout
	ValPtr  Pointer
	NextPtr Pointer
	Len     uint16
	Type    uint16
	_       uint32
}

// UverbsFlowActionESP mirrors struct ib_uverbs_flow_action_esp
// (rdma/ib_user_ioctl_verbs.h), an IPsec ESP action.
type UverbsFlowActionESP struct {
	_             structs.HostLayout
	SPI           uint32
	Seq           uint32
	TFCPad        uint32
	Flags         uint32
	HardLimitPkts uint64
}

// UverbsQueryPortRespEx mirrors struct ib_uverbs_query_port_resp_ex (rdma/ib_user_ioctl_verbs.h),
// UVERBS_ATTR_QUERY_PORT_RESP.
type UverbsQueryPortRespEx struct {
	_             structs.HostLayout
	LegacyResp    UverbsQueryPortResp
	PortCapFlags2 uint16
	Reserved      [2]uint8
	ActiveSpeedEx uint32 // reserved before Linux 7.3
}

// UverbsQPCap mirrors struct ib_uverbs_qp_cap (rdma/ib_user_ioctl_verbs.h).
type UverbsQPCap struct {
	_             structs.HostLayout
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
}

// UverbsGIDEntry mirrors struct ib_uverbs_gid_entry
// (rdma/ib_user_ioctl_verbs.h). GID is two __aligned_u64 of C that hold sixteen
// bytes in wire order.
type UverbsGIDEntry struct {
	_             structs.HostLayout
	GID           [16]uint8
	GIDIndex      uint32
	PortNum       uint32
	GIDType       uint32
	NetdevIfindex uint32 // 0: no network interface belongs to the entry
}

// UverbsBufferDesc mirrors struct ib_uverbs_buffer_desc (rdma/ib_user_ioctl_verbs.h), memory of the
// user, or of a dma-buf, for a queue. Addr is an offset if there is a dma-buf. It is an integer,
// which hides an address from the garbage collector. Since Linux 7.3.
type UverbsBufferDesc struct {
	_             structs.HostLayout
	Type          uint32
	FD            int32
	Flags         uint32
	OptionalFlags uint32
	Addr          uint64
	Length        uint64
}
