// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"syscall"

	"purerdma/abi"
)

// SGE is one scatter/gather element: a piece of registered memory (struct
// ibv_sge of ibv_post_send(3)).
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// SendOpcode is what a send work request does. The zero value is none, and is
// refused: in C it is a WRITE.
type SendOpcode uint32

// opcodeShift keeps zero free: each operation is its value in enum
// ib_uverbs_wr_opcode of rdma/ib_user_verbs.h plus one.
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
	// OpLSO is a SEND of a packet that the device cuts into segments (large send
	// offload): QPs of type RawPacket.
	OpLSO SendOpcode = opcodeShift + abi.IB_UVERBS_WR_TSO
	// OpReadInv is OpRead that invalidates the key of its element when the data is
	// there: iWARP alone has it, whose reads fill memory by a key that the peer
	// knows.
	OpReadInv     SendOpcode = opcodeShift + abi.IB_UVERBS_WR_RDMA_READ_WITH_INV
	OpFlush       SendOpcode = opcodeShift + abi.IB_UVERBS_WR_FLUSH        // since Linux 6.12
	OpAtomicWrite SendOpcode = opcodeShift + abi.IB_UVERBS_WR_ATOMIC_WRITE // since Linux 6.12
)

// Kernel returns the operation's value in enum ib_uverbs_wr_opcode.
func (o SendOpcode) Kernel() uint32 { return uint32(o) - opcodeShift }

// ErrNoOpcode reports a send work request whose Opcode is zero. It wraps EINVAL.
var ErrNoOpcode = fmt.Errorf("work request without an Opcode: %w", syscall.EINVAL)

// ErrNoReads reports a READ or atomic on a queue pair that may have none under way. rxe
// and siw would let it wait for ever. It wraps EINVAL.
var ErrNoReads = fmt.Errorf("the queue pair may have no READs and atomics: MaxRdAtomic (InitiatorDepth of a connection) is 0: %w", syscall.EINVAL)

// String returns the name of the operation.
func (o SendOpcode) String() string {
	return enumName(o, "SendOpcode", []string{
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
	// SendIPChecksum has the device fill in the checksums of IP, TCP and UDP: QPs of
	// type RawPacket.
	SendIPChecksum SendFlags = 1 << 4
)

// String lists the flags.
func (f SendFlags) String() string {
	return bitNames{{uint64(SendFence), "Fence"}, {uint64(SendSignaled), "Signaled"}, {uint64(SendSolicited), "Solicited"}, {uint64(SendIPChecksum), "IPChecksum"}}.format(uint64(f))
}

// SendWR is one request for a send queue (struct ibv_send_wr of
// ibv_post_send(3)). Which fields count depends on the Opcode. A post copies it:
// the struct and its slices may be reused at once. The memory that SGList names
// belongs to the device until the request has completed; so does that of
// requests that complete without a WC, until a later one has.
type SendWR struct {
	// ID comes back in WC.ID.
	ID     uint64
	Opcode SendOpcode
	Flags  SendFlags

	// SGList is the memory that is sent, or that a read or atomic fills.
	SGList []SGE
	// InlineData, if not nil, is sent instead of SGList: it needs no
	// registration and may be reused as soon as the post returns. For sends
	// and writes, up to QPCap.Inline bytes; for OpAtomicWrite it is the 8 bytes
	// to write.
	InlineData []byte

	// RemoteAddr and RKey name the peer's memory: writes, reads, flushes, atomics
	// (whose address is a multiple of 8).
	RemoteAddr uint64
	RKey       uint32

	// ImmData goes to the peer's WC.ImmData: OpSendImm, OpWriteImm. It is a
	// number in host order here and there; on the wire it is big-endian.
	ImmData uint32
	// InvalidateRKey is the key to invalidate: the peer's with OpSendInv, one of
	// this host with OpLocalInv.
	InvalidateRKey uint32

	// CompareAdd is what OpCompareSwap compares with and what OpFetchAdd adds;
	// Swap is what OpCompareSwap stores.
	CompareAdd uint64
	Swap       uint64
	// AH, RemoteQPN and RemoteQKey say whom a datagram goes to: UD QPs only. AH
	// is the *verbs.AH of PD.CreateAH. A datagram is as long as the path MTU at most; longer ones
	// are lost, as are those that nobody receives.
	AH         AHHolder
	RemoteQPN  uint32
	RemoteQKey uint32
	// RemoteSRQN names the peer's SRQ: QPs of type XRCSend only.
	RemoteSRQN uint32

	// Bind is what OpBindMW does.
	Bind *MWBindInfo
	// Flush is what OpFlush does.
	Flush Flush

	// Header is the first bytes of a packet, which SGList goes on with: QPs of type
	// RawPacket. Each segment of an OpLSO begins with a copy of it, whose lengths and
	// sequence numbers the device counts up. Some devices want the Ethernet header
	// of every packet so. The memory may be reused as soon as the post returns.
	Header []byte
	// MSS is how many bytes of payload a segment of an OpLSO has.
	MSS uint16
}

// Flush is how far the peer's device gets earlier writes of the QP to RemoteAddr:
// when the request completes they are there (ibv_wr_flush of ibv_wr_post(3)).
type Flush struct {
	Length uint32 // bytes from RemoteAddr on
	Type   FlushType
	Level  FlushLevel
}

// FlushType is where written bytes must have come to: enum
// ib_uverbs_placement_type of rdma/ib_user_verbs.h.
type FlushType uint8

// Where flushed bytes are. Each needs the right of its name.
const (
	ToGlobal     FlushType = abi.IB_FLUSH_GLOBAL     // all that reach the memory see them
	ToPersistent FlushType = abi.IB_FLUSH_PERSISTENT // they outlive a loss of power
)

// FlushLevel is what a flush is about.
type FlushLevel uint8

// Levels of a flush: Flush.Length bytes, or the whole memory region.
const (
	FlushRange FlushLevel = abi.IB_FLUSH_RANGE
	FlushMR    FlushLevel = abi.IB_FLUSH_MR
)

// RecvWR is one request for a receive queue (struct ibv_recv_wr of
// ibv_post_recv(3)). A post copies it; the memory that SGList names belongs to
// the device until the request has completed.
type RecvWR struct {
	ID     uint64 // comes back in WC.ID
	SGList []SGE
}
