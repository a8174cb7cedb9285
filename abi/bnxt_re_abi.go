// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// BNXT_RE_ABI_VERSION is the version of rdma/bnxt_re-abi.h.
const BNXT_RE_ABI_VERSION = 1

// Shifts in BnxtReUctxResp.ChipID0, from rdma/bnxt_re-abi.h.
const (
	BNXT_RE_CHIP_ID0_CHIP_NUM_SFT = 0
	BNXT_RE_CHIP_ID0_CHIP_REV_SFT = 16
	BNXT_RE_CHIP_ID0_CHIP_MET_SFT = 24
)

// BnxtReUctxResp.CompMask, from rdma/bnxt_re-abi.h.
const (
	BNXT_RE_UCNTX_CMASK_HAVE_CCTX               = 0x1
	BNXT_RE_UCNTX_CMASK_HAVE_MODE               = 0x2
	BNXT_RE_UCNTX_CMASK_WC_DPI_ENABLED          = 0x4      // since Linux 6.12
	BNXT_RE_UCNTX_CMASK_DBR_PACING_ENABLED      = 0x8      // since Linux 6.12
	BNXT_RE_UCNTX_CMASK_POW2_DISABLED           = 0x10     // since Linux 6.12
	BNXT_RE_UCNTX_CMASK_MSN_TABLE_ENABLED       = 0x40     // since Linux 6.12
	BNXT_RE_UCNTX_CMASK_QP_RATE_LIMIT_ENABLED   = 0x80     // since Linux 7.3
	BNXT_RE_UCNTX_CMASK_TOGGLE_MEM_UOBJ_SUPPORT = 0x400000 // since Linux 7.3
)

// enum bnxt_re_wqe_mode of rdma/bnxt_re-abi.h.
const (
	BNXT_QPLIB_WQE_MODE_STATIC = iota
	BNXT_QPLIB_WQE_MODE_VARIABLE
	BNXT_QPLIB_WQE_MODE_INVALID
)

// BnxtReUctxReq.CompMask, from rdma/bnxt_re-abi.h.
const (
	BNXT_RE_COMP_MASK_REQ_UCNTX_POW2_SUPPORT    = 0x1 // since Linux 6.12
	BNXT_RE_COMP_MASK_REQ_UCNTX_VAR_WQE_SUPPORT = 0x2 // since Linux 6.12
)

// enum bnxt_re_resp_cq_mask of rdma/bnxt_re-abi.h.
const BNXT_RE_CQ_TOGGLE_PAGE_SUPPORT = 0x1 // since Linux 6.12

// enum bnxt_re_req_cq_mask of rdma/bnxt_re-abi.h.
const BNXT_RE_CQ_FIXED_NUM_CQE_ENABLE = 0x1 // since Linux 7.3

// enum bnxt_re_qp_mask of rdma/bnxt_re-abi.h. Newer kernels use the only bit for another purpose.
const (
	BNXT_RE_QP_REQ_MASK_VAR_WQE_SQ_SLOTS = 0x1 // since Linux 6.12, not in 7.3
	BNXT_RE_QP_REQ_MASK_FIXED_QUE_ATTR   = 0x1 // since Linux 7.3
)

// enum bnxt_re_srq_mask of rdma/bnxt_re-abi.h.
const BNXT_RE_SRQ_TOGGLE_PAGE_SUPPORT = 0x1 // since Linux 6.12

// enum bnxt_re_shpg_offt of rdma/bnxt_re-abi.h, offsets in the page that the kernel shares with the process.
const (
	BNXT_RE_BEG_RESV_OFFT = 0x00
	BNXT_RE_AVID_OFFT     = 0x10
	BNXT_RE_AVID_SIZE     = 0x04
	BNXT_RE_END_RESV_OFFT = 0xff0
)

// enum bnxt_re_create_qp_attrs of rdma/bnxt_re-abi.h.
const BNXT_RE_CREATE_QP_ATTR_DBR_HANDLE = UVERBS_ID_DRIVER_NS_WITH_UHW // since Linux 7.3

// enum bnxt_re_objects of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_OBJECT_ALLOC_PAGE     = UVERBS_ID_DRIVER_NS + iota // since Linux 6.12
	BNXT_RE_OBJECT_NOTIFY_DRV                                  // since Linux 6.12
	BNXT_RE_OBJECT_GET_TOGGLE_MEM                              // since Linux 6.12
	BNXT_RE_OBJECT_DBR                                         // since Linux 7.3
	BNXT_RE_OBJECT_DEFAULT_DBR                                 // since Linux 7.3
)

// enum bnxt_re_alloc_page_type of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_ALLOC_WC_PAGE      = iota // since Linux 6.12
	BNXT_RE_ALLOC_DBR_BAR_PAGE        // since Linux 6.12
	BNXT_RE_ALLOC_DBR_PAGE            // since Linux 6.12
)

// enum bnxt_re_var_alloc_page_attrs of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_ALLOC_PAGE_HANDLE      = UVERBS_ID_DRIVER_NS + iota // since Linux 6.12
	BNXT_RE_ALLOC_PAGE_TYPE                                     // since Linux 6.12
	BNXT_RE_ALLOC_PAGE_DPI                                      // since Linux 6.12
	BNXT_RE_ALLOC_PAGE_MMAP_OFFSET                              // since Linux 6.12
	BNXT_RE_ALLOC_PAGE_MMAP_LENGTH                              // since Linux 6.12
)

// enum bnxt_re_alloc_page_attrs of rdma/bnxt_re-abi.h.
const BNXT_RE_DESTROY_PAGE_HANDLE = UVERBS_ID_DRIVER_NS // since Linux 6.12

// enum bnxt_re_alloc_page_methods of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_METHOD_ALLOC_PAGE   = UVERBS_ID_DRIVER_NS + iota // since Linux 6.12
	BNXT_RE_METHOD_DESTROY_PAGE                              // since Linux 6.12
)

// enum bnxt_re_notify_drv_methods of rdma/bnxt_re-abi.h.
const BNXT_RE_METHOD_NOTIFY_DRV = UVERBS_ID_DRIVER_NS // since Linux 6.12

// enum bnxt_re_get_toggle_mem_type of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_CQ_TOGGLE_MEM  = iota // since Linux 6.12
	BNXT_RE_SRQ_TOGGLE_MEM        // since Linux 6.12
)

// enum bnxt_re_var_toggle_mem_attrs of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_TOGGLE_MEM_HANDLE      = UVERBS_ID_DRIVER_NS + iota // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_TYPE                                     // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_RES_ID                                   // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_MMAP_PAGE                                // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_MMAP_OFFSET                              // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_MMAP_LENGTH                              // since Linux 6.12
	BNXT_RE_TOGGLE_MEM_CQ_HANDLE                                // since Linux 7.3
	BNXT_RE_TOGGLE_MEM_SRQ_HANDLE                               // since Linux 7.3
)

// enum bnxt_re_toggle_mem_attrs of rdma/bnxt_re-abi.h.
const BNXT_RE_RELEASE_TOGGLE_MEM_HANDLE = UVERBS_ID_DRIVER_NS // since Linux 6.12

// enum bnxt_re_toggle_mem_methods of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_METHOD_GET_TOGGLE_MEM     = UVERBS_ID_DRIVER_NS + iota // since Linux 6.12
	BNXT_RE_METHOD_RELEASE_TOGGLE_MEM                              // since Linux 6.12
)

// enum bnxt_re_obj_dbr_alloc_attrs of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_ALLOC_DBR_HANDLE = UVERBS_ID_DRIVER_NS + iota // since Linux 7.3
	BNXT_RE_ALLOC_DBR_ATTR                                // since Linux 7.3
	BNXT_RE_ALLOC_DBR_OFFSET                              // since Linux 7.3
)

// enum bnxt_re_obj_dbr_free_attrs of rdma/bnxt_re-abi.h.
const BNXT_RE_FREE_DBR_HANDLE = UVERBS_ID_DRIVER_NS // since Linux 7.3

// enum bnxt_re_obj_default_dbr_attrs of rdma/bnxt_re-abi.h.
const BNXT_RE_DEFAULT_DBR_ATTR = UVERBS_ID_DRIVER_NS // since Linux 7.3

// enum bnxt_re_obj_dpi_methods of rdma/bnxt_re-abi.h.
const (
	BNXT_RE_METHOD_DBR_ALLOC       = UVERBS_ID_DRIVER_NS + iota // since Linux 7.3
	BNXT_RE_METHOD_DBR_FREE                                     // since Linux 7.3
	BNXT_RE_METHOD_GET_DEFAULT_DBR                              // since Linux 7.3
)

// BnxtReUctxReq mirrors struct bnxt_re_uctx_req (rdma/bnxt_re-abi.h), the features of a new context that the
// process can use. since Linux 6.12
type BnxtReUctxReq struct {
	_        structs.HostLayout
	CompMask uint64
}

// BnxtReUctxResp mirrors struct bnxt_re_uctx_resp (rdma/bnxt_re-abi.h), the chip and the sizes of a new context.
type BnxtReUctxResp struct {
	_        structs.HostLayout
	DevID    uint32
	MaxQP    uint32
	PgSize   uint32
	CQESz    uint32
	MaxCQD   uint32
	Rsvd     uint32
	CompMask uint64
	ChipID0  uint32
	ChipID1  uint32
	Mode     uint32
	Rsvd1    uint32
}

// BnxtRePDResp mirrors struct bnxt_re_pd_resp (rdma/bnxt_re-abi.h), the doorbell page of the context. DBR is an
// offset for mmap(2).
type BnxtRePDResp struct {
	_    structs.HostLayout
	PDID uint32
	DPI  uint32
	DBR  uint64
}

// BnxtReCQReq mirrors struct bnxt_re_cq_req (rdma/bnxt_re-abi.h), the memory of a new CQ.
type BnxtReCQReq struct {
	_        structs.HostLayout
	CQVA     Pointer
	CQHandle uint64
	CompMask uint64 // since Linux 7.3
}

// BnxtReCQResp mirrors struct bnxt_re_cq_resp (rdma/bnxt_re-abi.h), the number and the state of a new CQ.
type BnxtReCQResp struct {
	_        structs.HostLayout
	CQID     uint32
	Tail     uint32
	Phase    uint32
	Rsvd     uint32
	CompMask uint64 // since Linux 6.12
}

// BnxtReResizeCQReq mirrors struct bnxt_re_resize_cq_req (rdma/bnxt_re-abi.h), the new memory of a CQ. since
// Linux 6.12
type BnxtReResizeCQReq struct {
	_    structs.HostLayout
	CQVA Pointer
}

// BnxtReQPReq mirrors struct bnxt_re_qp_req (rdma/bnxt_re-abi.h), the memory of a new QP.
type BnxtReQPReq struct {
	_        structs.HostLayout
	QPSVA    Pointer
	QPRVA    Pointer
	QPHandle uint64
	CompMask uint64 // since Linux 6.12
	SQSlots  uint32 // since Linux 6.12
	SQNPSN   uint32 // since Linux 7.3
}

// BnxtReQPResp mirrors struct bnxt_re_qp_resp (rdma/bnxt_re-abi.h), the number of a new QP.
type BnxtReQPResp struct {
	_    structs.HostLayout
	QPID uint32
	Rsvd uint32
}

// BnxtReSRQReq mirrors struct bnxt_re_srq_req (rdma/bnxt_re-abi.h), the memory of a new SRQ.
type BnxtReSRQReq struct {
	_         structs.HostLayout
	SRQVA     Pointer
	SRQHandle uint64
}

// BnxtReSRQResp mirrors struct bnxt_re_srq_resp (rdma/bnxt_re-abi.h), the number of a new SRQ.
type BnxtReSRQResp struct {
	_        structs.HostLayout
	SRQID    uint32
	Rsvd     uint32 // since Linux 6.12
	CompMask uint64 // since Linux 6.12
}

// BnxtRePacketPacingCaps mirrors struct bnxt_re_packet_pacing_caps (rdma/bnxt_re-abi.h), the limits of the rate of
// a QP in kbit/s. since Linux 7.3
type BnxtRePacketPacingCaps struct {
	_              structs.HostLayout
	QPRateLimitMin uint32
	QPRateLimitMax uint32
	SupportedQPTs  uint32
	Reserved       uint32
}

// BnxtReQueryDeviceExResp mirrors struct bnxt_re_query_device_ex_resp (rdma/bnxt_re-abi.h). since Linux 7.3
type BnxtReQueryDeviceExResp struct {
	_                structs.HostLayout
	PacketPacingCaps BnxtRePacketPacingCaps
}

// BnxtReDBRegion mirrors struct bnxt_re_db_region (rdma/bnxt_re-abi.h), a doorbell page of a program. since Linux 7.3
type BnxtReDBRegion struct {
	_         structs.HostLayout
	DPI       uint32
	Reserved  uint32
	Reserved2 uint64
}
