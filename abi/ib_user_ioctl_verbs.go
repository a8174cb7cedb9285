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
const IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS = 1 << 0

// enum ib_uverbs_access_flags of rdma/ib_user_ioctl_verbs.h.
const (
	IB_UVERBS_ACCESS_LOCAL_WRITE   = 1 << 0
	IB_UVERBS_ACCESS_REMOTE_WRITE  = 1 << 1
	IB_UVERBS_ACCESS_REMOTE_READ   = 1 << 2
	IB_UVERBS_ACCESS_REMOTE_ATOMIC = 1 << 3
	IB_UVERBS_ACCESS_MW_BIND       = 1 << 4
	IB_UVERBS_ACCESS_ZERO_BASED    = 1 << 5
	IB_UVERBS_ACCESS_ON_DEMAND     = 1 << 6
	IB_UVERBS_ACCESS_HUGETLB       = 1 << 7

	IB_UVERBS_ACCESS_RELAXED_ORDERING = IB_UVERBS_ACCESS_OPTIONAL_FIRST
	IB_UVERBS_ACCESS_OPTIONAL_RANGE   = (IB_UVERBS_ACCESS_OPTIONAL_LAST<<1 - 1) &^ (IB_UVERBS_ACCESS_OPTIONAL_FIRST - 1)
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

// enum ib_uverbs_query_port_flags of rdma/ib_user_ioctl_verbs.h.
const IB_UVERBS_QPF_GRH_REQUIRED = 1 << 0

// UverbsQueryPortRespEx mirrors struct ib_uverbs_query_port_resp_ex
// (rdma/ib_user_ioctl_verbs.h).
type UverbsQueryPortRespEx struct {
	_             structs.HostLayout
	LegacyResp    UverbsQueryPortResp
	PortCapFlags2 uint16
	Reserved      [6]uint8
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
)

// String returns the name of the kernel module, as "rxe" or "mlx5".
func (d DriverID) String() string {
	names := [...]string{
		"unknown", "mlx5", "mlx4", "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma", "nes", "irdma",
		"vmw_pvrdma", "qedr", "hns", "usnic", "rxe", "hfi1", "qib", "efa", "siw", "erdma",
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
