// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/enum"
)

// SGE is a scatter/gather element. It names a piece of registered memory (struct ibv_sge of
// ibv_post_send(3)).
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// SendOpcode is the operation of a send work request. The zero value is not an operation and is
// refused. In C it is a WRITE.
type SendOpcode uint32

// opcodeShift keeps zero free. Each operation is its value in enum ib_uverbs_wr_opcode of
// rdma/ib_user_verbs.h plus one.
const opcodeShift = 1

// Operations of a send queue.
const (
	OpWrite       SendOpcode = opcodeShift + abi.IB_UVERBS_WR_RDMA_WRITE
	OpWriteImm    SendOpcode = opcodeShift + abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
	OpSend        SendOpcode = opcodeShift + abi.IB_UVERBS_WR_SEND
	OpSendImm     SendOpcode = opcodeShift + abi.IB_UVERBS_WR_SEND_WITH_IMM
	OpRead        SendOpcode = opcodeShift + abi.IB_UVERBS_WR_RDMA_READ
	OpCompareSwap SendOpcode = opcodeShift + abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP
	OpFetchAdd    SendOpcode = opcodeShift + abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
	OpLocalInv    SendOpcode = opcodeShift + abi.IB_UVERBS_WR_LOCAL_INV
	OpBindMW      SendOpcode = opcodeShift + abi.IB_UVERBS_WR_BIND_MW
	OpSendInv     SendOpcode = opcodeShift + abi.IB_UVERBS_WR_SEND_WITH_INV
	// OpLSO is a SEND of a packet that the device cuts into segments (large send offload). It is
	// for QPs of type RawPacket.
	OpLSO SendOpcode = opcodeShift + abi.IB_UVERBS_WR_TSO
	// OpReadInv is OpRead that invalidates the key of its element after the data has arrived. Only
	// iWARP has it, because the peer uses that key to write the data of the read.
	OpReadInv     SendOpcode = opcodeShift + abi.IB_UVERBS_WR_RDMA_READ_WITH_INV
	OpFlush       SendOpcode = opcodeShift + abi.IB_UVERBS_WR_FLUSH        // since Linux 6.12
	OpAtomicWrite SendOpcode = opcodeShift + abi.IB_UVERBS_WR_ATOMIC_WRITE // since Linux 6.12
)

// Kernel returns the operation's value in enum ib_uverbs_wr_opcode.
func (o SendOpcode) Kernel() uint32 { return uint32(o) - opcodeShift }

// ErrNoOpcode reports a send work request whose Opcode is zero. It wraps EINVAL.
var ErrNoOpcode = fmt.Errorf("work request without an Opcode: %w", syscall.EINVAL)

// ErrNoReads reports a READ or atomic on a queue pair whose limit of outstanding ones is 0. rxe and
// siw would never complete it. It wraps EINVAL.
var ErrNoReads = fmt.Errorf("the queue pair may have no READs and atomics: MaxRdAtomic (InitiatorDepth of a connection) is 0: %w", syscall.EINVAL)

// String returns the name of the operation.
func (o SendOpcode) String() string {
	return enum.Name(o, "SendOpcode", []string{
		OpWrite: "WRITE", OpWriteImm: "WRITE_WITH_IMM", OpSend: "SEND", OpSendImm: "SEND_WITH_IMM", OpRead: "READ",
		OpCompareSwap: "COMPARE_SWAP", OpFetchAdd: "FETCH_ADD", OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW", OpSendInv: "SEND_WITH_INV", OpLSO: "LSO", OpReadInv: "READ_WITH_INV",
		OpFlush: "FLUSH", OpAtomicWrite: "ATOMIC_WRITE",
	})
}

// SendFlags changes how a send work request runs: IBV_SEND_... of
// ibv_post_send(3).
type SendFlags uint32

// Flags of a send work request. Inline has no flag: set SendWR.InlineData.
const (
	SendFence     SendFlags = 1 << 0 // start after all earlier reads and atomics
	SendSignaled  SendFlags = 1 << 1 // complete with a WC also on success
	SendSolicited SendFlags = 1 << 2 // the peer's completion is solicited
	// SendIPChecksum makes the device fill in the checksums of IP, TCP and UDP. It is for QPs of
	// type RawPacket.
	SendIPChecksum SendFlags = 1 << 4
)

// String lists the flags.
func (f SendFlags) String() string {
	return bitNames{{uint64(SendFence), "Fence"}, {uint64(SendSignaled), "Signaled"}, {uint64(SendSolicited), "Solicited"}, {uint64(SendIPChecksum), "IPChecksum"}}.format(uint64(f))
}

// SendWR is one request for a send queue (struct ibv_send_wr of ibv_post_send(3)). The Opcode
// determines which fields are used. A post copies it, so the struct and its slices may be reused at
// once. The memory that SGList names belongs to the device until the request has completed. A
// request without a WC has completed when a later request completes with one.
type SendWR struct {
	// ID is copied to WC.ID.
	ID     uint64
	Opcode SendOpcode
	Flags  SendFlags

	// SGList is the memory that is sent, or that a read or atomic fills.
	SGList []SGE
	// InlineData, if not nil, is sent instead of SGList. It needs no registration and may be reused
	// as soon as the post returns. Sends and writes take up to QPCap.Inline bytes. OpAtomicWrite
	// takes the 8 bytes to write.
	InlineData []byte

	// RemoteAddr and RKey name the peer's memory of writes, reads, flushes and atomics. The address
	// of an atomic is a multiple of 8.
	RemoteAddr uint64
	RKey       uint32

	// ImmData is copied to the peer's WC.ImmData by OpSendImm and OpWriteImm. It is a number in
	// host order on both sides and big-endian on the wire.
	ImmData uint32
	// InvalidateRKey is the key to invalidate, the peer's with OpSendInv and a local one with
	// OpLocalInv.
	InvalidateRKey uint32

	// CompareAdd is the value that OpCompareSwap compares with and OpFetchAdd adds. Swap is the
	// value that OpCompareSwap stores.
	CompareAdd uint64
	Swap       uint64
	// AH, RemoteQPN and RemoteQKey are the destination of a datagram. They are for UD QPs. AH is
	// the *verbs.AH of PD.CreateAH. A datagram is at most as long as the path MTU. Longer datagrams
	// are lost, and also those without a receive.
	AH         AHHolder
	RemoteQPN  uint32
	RemoteQKey uint32
	// RemoteSRQN names the peer's SRQ. It is for QPs of type XRCSend.
	RemoteSRQN uint32

	// Bind holds the arguments of OpBindMW.
	Bind *MWBindInfo
	// Flush holds the arguments of OpFlush.
	Flush Flush

	// Header holds the first bytes of a packet, and SGList the rest. It is for QPs of type
	// RawPacket. Each segment of an OpLSO begins with a copy of it, in which the device adjusts
	// lengths and sequence numbers. Some devices need the Ethernet header of every packet here. The
	// memory may be reused as soon as the post returns.
	Header []byte
	// MSS is the payload of a segment of an OpLSO in bytes.
	MSS uint16
}

// Flush sets how far a flush moves earlier writes of the QP to RemoteAddr. When the request
// completes they have arrived there (ibv_wr_flush of ibv_wr_post(3)).
type Flush struct {
	Length uint32 // bytes from RemoteAddr on
	Type   FlushType
	Level  FlushLevel
}

// FlushType is the place that flushed bytes must reach: enum ib_uverbs_placement_type of
// rdma/ib_user_verbs.h.
type FlushType uint8

// Places that flushed bytes reach. Each needs the right of its name.
const (
	ToGlobal     FlushType = abi.IB_FLUSH_GLOBAL     // all that reach the memory see them
	ToPersistent FlushType = abi.IB_FLUSH_PERSISTENT // they outlive a loss of power
)

// FlushLevel is the range of a flush.
type FlushLevel uint8

// Levels of a flush: Flush.Length bytes, or the whole memory region.
const (
	FlushRange FlushLevel = abi.IB_FLUSH_RANGE
	FlushMR    FlushLevel = abi.IB_FLUSH_MR
)

// RecvWR is one request for a receive queue (struct ibv_recv_wr of ibv_post_recv(3)). A post copies
// it. The memory that SGList names belongs to the device until the request has completed.
type RecvWR struct {
	ID     uint64 // comes back in WC.ID
	SGList []SGE
}
