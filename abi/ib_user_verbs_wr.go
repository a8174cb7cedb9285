// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// enum ib_placement_type of rdma/ib_user_verbs.h. Since Linux 6.12.
const (
	IB_FLUSH_GLOBAL     = 1 << 0
	IB_FLUSH_PERSISTENT = 1 << 1
)

// enum ib_selectivity_level of rdma/ib_user_verbs.h. Since Linux 6.12.
const (
	IB_FLUSH_RANGE = iota
	IB_FLUSH_MR
)

// enum ib_uverbs_wr_opcode of rdma/ib_user_verbs.h.
const (
	IB_UVERBS_WR_RDMA_WRITE = iota
	IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
	IB_UVERBS_WR_SEND
	IB_UVERBS_WR_SEND_WITH_IMM
	IB_UVERBS_WR_RDMA_READ
	IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
	IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
	IB_UVERBS_WR_LOCAL_INV
	IB_UVERBS_WR_BIND_MW
	IB_UVERBS_WR_SEND_WITH_INV
	IB_UVERBS_WR_TSO
	IB_UVERBS_WR_RDMA_READ_WITH_INV
	IB_UVERBS_WR_MASKED_ATOMIC_CMP_AND_SWP
	IB_UVERBS_WR_MASKED_ATOMIC_FETCH_AND_ADD
	IB_UVERBS_WR_FLUSH        // since Linux 6.12
	IB_UVERBS_WR_ATOMIC_WRITE // since Linux 6.12
)

// UverbsSGE mirrors struct ib_uverbs_sge (rdma/ib_user_verbs.h), one part of
// the memory of a work request.
type UverbsSGE struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	LKey   uint32
}

// UverbsSendWR mirrors struct ib_uverbs_send_wr (rdma/ib_user_verbs.h), a work request of
// IB_USER_VERBS_CMD_POST_SEND. Its union wr is as long as atomic, which is the field here. RDMA and
// UD access the other members.
type UverbsSendWR struct {
	_         structs.HostLayout
	WRID      uint64
	NumSGE    uint32
	Opcode    uint32 // IB_UVERBS_WR_...
	SendFlags uint32
	Ex        [4]uint8 // union of __be32 imm_data and __u32 invalidate_rkey
	WR        UverbsSendWRAtomic
}

// RDMA returns wr.rdma, for writes and reads.
func (w *UverbsSendWR) RDMA() *UverbsSendWRRDMA { return member[UverbsSendWRRDMA](&w.WR) }

// UD returns wr.ud, for datagrams.
func (w *UverbsSendWR) UD() *UverbsSendWRUD { return member[UverbsSendWRUD](&w.WR) }

// UverbsSendWRRDMA mirrors wr.rdma of struct ib_uverbs_send_wr
// (rdma/ib_user_verbs.h).
type UverbsSendWRRDMA struct {
	_          structs.HostLayout
	RemoteAddr uint64
	RKey       uint32
	Reserved   uint32
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

// UverbsSendWRUD mirrors wr.ud of struct ib_uverbs_send_wr
// (rdma/ib_user_verbs.h).
type UverbsSendWRUD struct {
	_          structs.HostLayout
	AH         uint32 // the handle of the address handle
	RemoteQPN  uint32
	RemoteQKey uint32
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

// UverbsRecvWR mirrors struct ib_uverbs_recv_wr (rdma/ib_user_verbs.h), a work
// request of the commands that post receives.
type UverbsRecvWR struct {
	_        structs.HostLayout
	WRID     uint64
	NumSGE   uint32
	Reserved uint32
}

// UverbsPostRecv mirrors struct ib_uverbs_post_recv (rdma/ib_user_verbs.h) up
// to its flexible end, the request of IB_USER_VERBS_CMD_POST_RECV.
type UverbsPostRecv struct {
	_        structs.HostLayout
	Response Pointer
	QPHandle uint32
	WRCount  uint32
	SGECount uint32
	WQESize  uint32
}

// UverbsPostRecvResp mirrors struct ib_uverbs_post_recv_resp (rdma/ib_user_verbs.h), the response
// to IB_USER_VERBS_CMD_POST_RECV.
type UverbsPostRecvResp struct {
	_     structs.HostLayout
	BadWR uint32
}

// UverbsPostSRQRecv mirrors struct ib_uverbs_post_srq_recv
// (rdma/ib_user_verbs.h) up to its flexible end, the request of
// IB_USER_VERBS_CMD_POST_SRQ_RECV.
type UverbsPostSRQRecv struct {
	_         structs.HostLayout
	Response  Pointer
	SRQHandle uint32
	WRCount   uint32
	SGECount  uint32
	WQESize   uint32
}

// UverbsPostSRQRecvResp mirrors struct ib_uverbs_post_srq_recv_resp (rdma/ib_user_verbs.h), the
// response to IB_USER_VERBS_CMD_POST_SRQ_RECV.
type UverbsPostSRQRecvResp struct {
	_     structs.HostLayout
	BadWR uint32
}
