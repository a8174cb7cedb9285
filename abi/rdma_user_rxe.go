// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// RxeSendWR mirrors struct rxe_send_wr (rdma/rdma_user_rxe.h). Its union wr is
// reached by RDMA and Atomic.
type RxeSendWR struct {
	_         structs.HostLayout
	WRID      uint64
	Reserved  uint32
	Opcode    uint32 // IB_UVERBS_WR_...
	SendFlags uint32
	Ex        [4]uint8 // union of __be32 imm_data and __u32 invalidate_rkey
	WR        [15]uint64
}

// RDMA returns wr.rdma, for writes and reads.
func (w *RxeSendWR) RDMA() *RxeSendWRRDMA { return member[RxeSendWRRDMA](&w.WR) }

// Atomic returns wr.atomic, for compare-and-swap and fetch-and-add.
func (w *RxeSendWR) Atomic() *RxeSendWRAtomic { return member[RxeSendWRAtomic](&w.WR) }

// RxeSendWRRDMA mirrors wr.rdma of struct rxe_send_wr (rdma/rdma_user_rxe.h).
type RxeSendWRRDMA struct {
	_          structs.HostLayout
	RemoteAddr uint64
	RKey       uint32
	Reserved   uint32
}

// RxeSendWRAtomic mirrors wr.atomic of struct rxe_send_wr
// (rdma/rdma_user_rxe.h).
type RxeSendWRAtomic struct {
	_          structs.HostLayout
	RemoteAddr uint64
	CompareAdd uint64
	Swap       uint64
	RKey       uint32
	Reserved   uint32
}

// RxeSGE mirrors struct rxe_sge (rdma/rdma_user_rxe.h).
type RxeSGE struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	LKey   uint32
}

// RxeMminfo mirrors struct mminfo (rdma/rdma_user_rxe.h): where to map a queue.
type RxeMminfo struct {
	_      structs.HostLayout
	Offset uint64
	Size   uint32
	Pad    uint32
}

// RxeDMAInfo mirrors struct rxe_dma_info (rdma/rdma_user_rxe.h) up to its
// flexible end: inline data, or NumSGE of [RxeSGE].
type RxeDMAInfo struct {
	_         structs.HostLayout
	Length    uint32
	Resid     uint32
	CurSGE    uint32
	NumSGE    uint32
	SGEOffset uint32
	Reserved  uint32
}

// RxeSendWQE mirrors struct rxe_send_wqe (rdma/rdma_user_rxe.h) up to the
// flexible end of DMA.
type RxeSendWQE struct {
	_           structs.HostLayout
	WR          RxeSendWR
	Status      uint32
	State       uint32
	IOVA        uint64
	Mask        uint32
	FirstPSN    uint32
	LastPSN     uint32
	AckLength   uint32
	SSN         uint32
	HasRdAtomic uint32
	DMA         RxeDMAInfo
}

// RxeRecvWQE mirrors struct rxe_recv_wqe (rdma/rdma_user_rxe.h) up to the
// flexible end of DMA.
type RxeRecvWQE struct {
	_        structs.HostLayout
	WRID     uint64
	Reserved uint32
	Padding  uint32
	DMA      RxeDMAInfo
}

// RxeCreateCQResp mirrors struct rxe_create_cq_resp (rdma/rdma_user_rxe.h).
type RxeCreateCQResp struct {
	_  structs.HostLayout
	MI RxeMminfo
}

// RxeCreateQPResp mirrors struct rxe_create_qp_resp (rdma/rdma_user_rxe.h).
type RxeCreateQPResp struct {
	_    structs.HostLayout
	RQMI RxeMminfo
	SQMI RxeMminfo
}

// RxeQueueBuf mirrors struct rxe_queue_buf (rdma/rdma_user_rxe.h), the start of
// each mapped queue, up to its flexible end: the slots.
type RxeQueueBuf struct {
	_             structs.HostLayout
	Log2ElemSize  uint32
	IndexMask     uint32
	Pad1          [30]uint32
	ProducerIndex uint32
	Pad2          [31]uint32
	ConsumerIndex uint32
	Pad3          [31]uint32
}
