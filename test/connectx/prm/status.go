// SPDX-License-Identifier: Apache-2.0

package prm

import "fmt"

// Status is the result of a command, the first byte of its output.
type Status uint8

// Statuses of commands: MLX5_CMD_STAT_... of Linux.
const (
	StatusOK             Status = 0x00
	StatusInternal       Status = 0x01
	StatusBadOp          Status = 0x02
	StatusBadParam       Status = 0x03
	StatusBadSysState    Status = 0x04
	StatusBadResource    Status = 0x05
	StatusResourceBusy   Status = 0x06
	StatusLimit          Status = 0x08
	StatusBadResState    Status = 0x09
	StatusBadIndex       Status = 0x0a
	StatusNoResources    Status = 0x0f
	StatusBadQPState     Status = 0x10
	StatusBadPacket      Status = 0x30
	StatusBadSize        Status = 0x40 // more completions than the new size
	StatusBadInputLength Status = 0x50
	StatusBadOutputLen   Status = 0x51
)

var statusNames = map[Status]string{
	StatusOK: "OK", StatusInternal: "INTERNAL_ERR", StatusBadOp: "BAD_OP", StatusBadParam: "BAD_PARAM",
	StatusBadSysState: "BAD_SYS_STATE", StatusBadResource: "BAD_RESOURCE", StatusResourceBusy: "RESOURCE_BUSY",
	StatusLimit: "EXCEED_LIM", StatusBadResState: "BAD_RES_STATE", StatusBadIndex: "BAD_INDEX",
	StatusNoResources: "NO_RESOURCES", StatusBadQPState: "BAD_QP_STATE", StatusBadPacket: "BAD_PKT",
	StatusBadSize: "BAD_SIZE_OUTS_CQES", StatusBadInputLength: "BAD_INPUT_LEN", StatusBadOutputLen: "BAD_OUTPUT_LEN",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status %#x", uint8(s))
}

// HeaderIn is the common beginning of commands.
var HeaderIn = struct{ Opcode, UID, OpMod Field }{
	Opcode: bits(0x00, 31, 16), UID: bits(0x00, 15, 0), OpMod: bits(0x04, 15, 0),
}

// HeaderOut is the common beginning of answers.
var HeaderOut = struct{ Status, Syndrome Field }{
	Status: bits(0x00, 31, 24), Syndrome: dword(0x04),
}

// HeaderLen is the minimum length of a command and its answer.
const HeaderLen = 16
