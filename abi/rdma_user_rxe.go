// SPDX-License-Identifier: Apache-2.0

package abi

import "structs"

// RxeAV.NetworkType, from rdma/rdma_user_rxe.h.
const (
	RXE_NETWORK_TYPE_IPV4 = iota + 1
	RXE_NETWORK_TYPE_IPV6
)

// RxeGID mirrors union rxe_gid (rdma/rdma_user_rxe.h): a GID, of which the first
// half is the prefix of the subnet.
type RxeGID struct {
	_   structs.HostLayout
	Raw [16]uint8
}

// RxeGlobalRoute mirrors struct rxe_global_route (rdma/rdma_user_rxe.h), the global route of an
// address.
type RxeGlobalRoute struct {
	_            structs.HostLayout
	DGID         RxeGID
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	_            uint8
}

// RxeAV mirrors struct rxe_av (rdma/rdma_user_rxe.h), the address of a
// datagram's receiver.
type RxeAV struct {
	_           structs.HostLayout
	PortNum     uint8
	NetworkType uint8
	DMAC        [6]uint8
	GRH         RxeGlobalRoute
	SGIDAddr    SockaddrIn6 // or a struct sockaddr_in
	DGIDAddr    SockaddrIn6 // or a struct sockaddr_in
}

// RxeSendWR mirrors struct rxe_send_wr (rdma/rdma_user_rxe.h). Its union wr is
// reached by RDMA, Atomic, UD, MW and Flush.
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

// Flush returns wr.flush. Since Linux 6.12.
func (w *RxeSendWR) Flush() *RxeSendWRFlush { return member[RxeSendWRFlush](&w.WR) }

// UD returns wr.ud, for datagrams.
func (w *RxeSendWR) UD() *RxeSendWRUD { return member[RxeSendWRUD](&w.WR) }

// MW returns wr.mw, for binding a memory window.
func (w *RxeSendWR) MW() *RxeSendWRMW { return member[RxeSendWRMW](&w.WR) }

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

// RxeSendWRFlush mirrors wr.flush of struct rxe_send_wr (rdma/rdma_user_rxe.h).
// Since Linux 6.12.
type RxeSendWRFlush struct {
	_          structs.HostLayout
	RemoteAddr uint64
	Length     uint32
	RKey       uint32
	Type       uint8 // IB_FLUSH_GLOBAL, IB_FLUSH_PERSISTENT
	Level      uint8 // IB_FLUSH_RANGE, IB_FLUSH_MR
	_          [6]uint8
}

// RxeSendWRUD mirrors wr.ud of struct rxe_send_wr (rdma/rdma_user_rxe.h). AV is
// read if AHNum is 0.
type RxeSendWRUD struct {
	_          structs.HostLayout
	RemoteQPN  uint32
	RemoteQKey uint32
	PKeyIndex  uint16
	Reserved   uint16
	AHNum      uint32
	Pad        [4]uint32
	AV         RxeAV
}

// RxeSendWRMW mirrors wr.mw of struct rxe_send_wr (rdma/rdma_user_rxe.h), the binding of a memory
// window.
type RxeSendWRMW struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint64
	MRLKey uint32
	MWRKey uint32
	RKey   uint32
	Access uint32
}

// RxeSGE mirrors struct rxe_sge (rdma/rdma_user_rxe.h).
type RxeSGE struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	LKey   uint32
}

// RxeMminfo mirrors struct mminfo (rdma/rdma_user_rxe.h), the mapping of a queue.
type RxeMminfo struct {
	_      structs.HostLayout
	Offset uint64
	Size   uint32
	Pad    uint32
}

// RxeDMAInfo mirrors struct rxe_dma_info (rdma/rdma_user_rxe.h) up to its flexible end, inline
// data, or NumSGE of [RxeSGE].
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

// RxeCreateAHResp mirrors struct rxe_create_ah_resp (rdma/rdma_user_rxe.h), the number of the
// address handle in work requests.
type RxeCreateAHResp struct {
	_        structs.HostLayout
	AHNum    uint32
	Reserved uint32
}

// RxeCreateCQResp mirrors struct rxe_create_cq_resp (rdma/rdma_user_rxe.h).
type RxeCreateCQResp struct {
	_  structs.HostLayout
	MI RxeMminfo
}

// RxeResizeCQResp mirrors struct rxe_resize_cq_resp (rdma/rdma_user_rxe.h), the mapping of the new
// queue.
type RxeResizeCQResp struct {
	_  structs.HostLayout
	MI RxeMminfo
}

// RxeCreateQPResp mirrors struct rxe_create_qp_resp (rdma/rdma_user_rxe.h).
type RxeCreateQPResp struct {
	_    structs.HostLayout
	RQMI RxeMminfo
	SQMI RxeMminfo
}

// RxeCreateSRQResp mirrors struct rxe_create_srq_resp (rdma/rdma_user_rxe.h), the mapping and the
// number of the queue.
type RxeCreateSRQResp struct {
	_        structs.HostLayout
	MI       RxeMminfo
	SRQNum   uint32
	Reserved uint32
}

// RxeModifySRQCmd mirrors struct rxe_modify_srq_cmd (rdma/rdma_user_rxe.h), the address at which
// the kernel stores the RxeMminfo of the new queue.
type RxeModifySRQCmd struct {
	_            structs.HostLayout
	MmapInfoAddr Pointer
}

// RxeQueueBuf mirrors struct rxe_queue_buf (rdma/rdma_user_rxe.h), the start of
// each mapped queue, up to its flexible end, the slots.
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
