// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

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

// UverbsDeallocPD mirrors struct ib_uverbs_dealloc_pd (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DEALLOC_PD.
type UverbsDeallocPD struct {
	_        structs.HostLayout
	PDHandle uint32
}

// UverbsOpenXRCD mirrors struct ib_uverbs_open_xrcd (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_OPEN_XRCD.
type UverbsOpenXRCD struct {
	_        structs.HostLayout
	Response Pointer
	FD       uint32
	Oflags   uint32
}

// UverbsOpenXRCDResp mirrors struct ib_uverbs_open_xrcd_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_OPEN_XRCD.
type UverbsOpenXRCDResp struct {
	_          structs.HostLayout
	XRCDHandle uint32
}

// UverbsCloseXRCD mirrors struct ib_uverbs_close_xrcd (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_CLOSE_XRCD.
type UverbsCloseXRCD struct {
	_          structs.HostLayout
	XRCDHandle uint32
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

// UverbsReregMR mirrors struct ib_uverbs_rereg_mr (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_REREG_MR.
type UverbsReregMR struct {
	_           structs.HostLayout
	Response    Pointer
	MRHandle    uint32
	Flags       uint32
	Start       Pointer
	Length      uint64
	HCAVA       uint64
	PDHandle    uint32
	AccessFlags uint32
}

// UverbsReregMRResp mirrors struct ib_uverbs_rereg_mr_resp (rdma/ib_user_verbs.h), the response to
// IB_USER_VERBS_CMD_REREG_MR.
type UverbsReregMRResp struct {
	_    structs.HostLayout
	LKey uint32
	RKey uint32
}

// UverbsDeregMR mirrors struct ib_uverbs_dereg_mr (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_DEREG_MR.
type UverbsDeregMR struct {
	_        structs.HostLayout
	MRHandle uint32
}

// UverbsAllocMW mirrors struct ib_uverbs_alloc_mw (rdma/ib_user_verbs.h), the request of
// IB_USER_VERBS_CMD_ALLOC_MW.
type UverbsAllocMW struct {
	_        structs.HostLayout
	Response Pointer
	PDHandle uint32
	MWType   uint8
	Reserved [3]uint8
}

// UverbsAllocMWResp mirrors struct ib_uverbs_alloc_mw_resp (rdma/ib_user_verbs.h), the response to
// IB_USER_VERBS_CMD_ALLOC_MW.
type UverbsAllocMWResp struct {
	_        structs.HostLayout
	MWHandle uint32
	RKey     uint32
}

// UverbsDeallocMW mirrors struct ib_uverbs_dealloc_mw (rdma/ib_user_verbs.h),
// the request of IB_USER_VERBS_CMD_DEALLOC_MW.
type UverbsDeallocMW struct {
	_        structs.HostLayout
	MWHandle uint32
}
