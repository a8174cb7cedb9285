// SPDX-License-Identifier: Apache-2.0

package erdma

import "encoding/binary"

// The header erdma_hw.h of the kernel's driver defines the layouts. Commands, requests and registers are little-endian,
// except where noted. Completions are big-endian.

var le, be = binary.LittleEndian, binary.BigEndian

// bits returns the bits hi to lo of a value.
func bits(v uint64, hi, lo uint) uint64 { return v >> lo & (1<<(hi-lo+1) - 1) }

// Registers of BAR 0.
const (
	regVersion    = 0x00
	regControl    = 0x10
	regStatus     = 0x14
	regMACLow     = 0x18
	regMACHigh    = 0x1c
	regCmdSQAddrL = 0x20
	regCmdSQAddrH = 0x24
	regCmdCQAddrL = 0x28
	regCmdCQAddrH = 0x2c
	regCmdDepth   = 0x30
	regCmdEQDepth = 0x34
	regCmdEQAddrL = 0x38
	regCmdEQAddrH = 0x3c
	regAEQAddrL   = 0x40
	regAEQAddrH   = 0x44
	regAEQDepth   = 0x48
	regGroups     = 0x4c
	regAEQ        = 0x50 // doorbell
	regRecords    = 0x60 // addresses of four doorbell records
	regCEQ        = 0x100
	regCmdSQ      = 0x200 // doorbell
	regCmdCQ      = 0x300 // doorbell
)

// Bits of regControl and regStatus.
const (
	bitReset = 1 << 0
	bitInit  = 1 << 1
)

// Areas of BAR 0. The pages of extended doorbells follow.
const (
	pageSize    = 4096
	sqDoorbells = 0x1000
	rqDoorbells = sqDoorbells + 384<<10
	cqDoorbells = rqDoorbells + 96<<10
	extended    = 512 << 10
	barSize     = 1 << 20
)

// Sizes in bytes. A request has up to four blocks.
const (
	blockSize    = 32
	maxBlocks    = 4
	rqeSize      = 32
	cqeSize      = 32
	eqeSize      = 16
	maxCommand   = maxBlocks * blockSize
	maxSGE       = 6
	maxInline    = 96
	dbRecordSize = 8
)

// Opcodes of requests, and of the completions of receives.
const (
	opWrite        = 0
	opRead         = 1
	opSend         = 2
	opSendImm      = 3
	opReceive      = 4
	opReceiveWrite = 5 // of a WRITE with immediate data
	opReceiveInv   = 6
	opWriteImm     = 9
	opReceiveImm   = 12 // of a SEND with immediate data
	opSendInv      = 13
	opRegMR        = 14
	opLocalInv     = 15
	opReadInv      = 16
	opCompareSwap  = 17
	opFetchAdd     = 18
)

// Queues of a completion.
const (
	queueSend    = 0
	queueReceive = 1
	queueCommand = 2
)

// status is the status of a completion.
type status uint8

const (
	statusOK      status = 0
	statusGeneral status = 1
	// The following statuses of a receive and of a request have the same order.
	statusReceive status = 2
	statusSend    status = 8
	statusFlushed status = 15
	statusRetries status = 16 // too many retries
)

// cause is the reason why a request or a receive cannot be executed. Added to statusReceive or
// localSend, it is a status.
type cause uint8

const (
	badFormat  cause = 0
	badKey     cause = 1
	badAddress cause = 2
	badRight   cause = 3
	badPD      cause = 4
)

// receive and send return the status for a cause.
func (c cause) receive() status { return statusReceive + status(c) }

func (c cause) send() status {
	if c == badFormat {
		return statusSend
	}
	return statusSend + 1 + status(c) // one status is for the limit of READs
}

// Types of asynchronous events.
const (
	eventQPFatal = 0
	eventReceive = 1 // no receive is posted
	eventAccess  = 2
)

// state is the state of a QP of iWARP.
type state uint8

const (
	stateIdle      state = 0
	stateRTR       state = 1
	stateRTS       state = 2
	stateClosing   state = 3
	stateTerminate state = 4
	stateError     state = 5
)

func (s state) String() string {
	names := [...]string{"IDLE", "RTR", "RTS", "CLOSING", "TERMINATE", "ERROR"}
	if int(s) < len(names) {
		return names[s]
	}
	return "?"
}
