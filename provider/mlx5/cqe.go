// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider/internal/endian"
)

// Opcodes of a CQE (MLX5_CQE_... of mlx5dv.h).
const (
	cqeReq         = 0x0 // a request
	cqeRespWrImm   = 0x1
	cqeRespSend    = 0x2
	cqeRespSendImm = 0x3
	cqeRespSendInv = 0x4
	cqeResize      = 0x5 // the last one in the old ring of a resized CQ
	cqeReqErr      = 0xd
	cqeRespErr     = 0xe
	cqeInvalid     = 0xf // never written by the device
)

// opcodeNOP is a WQE that does nothing.
const opcodeNOP = 0x00

// Formats of a CQE: bits 2 and 3 of its last byte.
const (
	formatPlain      = 0
	formatScatter32  = 1 // the first 32 bytes are the data of the request
	formatScatter64  = 2 // the 64 bytes before are, in a CQE of 128 bytes
	formatCompressed = 3 // the title of several CQEs
)

// Offsets into a CQE (struct mlx5_cqe64 and mlx5_err_cqe of mlx5dv.h). A CQE of
// 128 bytes has it in its second half. All fields are big-endian.
const (
	cqeHash      = 12 // 32 bits: hash of a packet.
	cqeMLPath    = 17 // 7 bits
	cqeChecksum  = 20 // 16 bits
	cqeSLID      = 22 // 16 bits
	cqeFlagsRQPN = 24 // 2 bits GRH at 28, 4 bits SL at 24, 24 bits source QP.
	cqeCsumOK    = 28 // 8 bits, one for each correct checksum.
	cqeL3Type    = 29 // 2 bits at 2, 1 bit at 0: the packet had a VLAN tag
	cqeVLAN      = 30 // 16 bits
	cqeUIdx      = 32 // 24 bits user index
	cqeImm       = 36 // 32 bits immediate data, invalidated key, or 16 bits P_Key index.
	cqeApp       = 40 // 8 bits: 1 for tag matching
	cqeByteCount = 44 // 32 bits
	cqeTimestamp = 48 // 64 bits.
	cqeVendorErr = 54 // 8 bits, in an error CQE
	cqeSyndrome  = 55 // 8 bits, in an error CQE
	cqeOpQPN     = 56 // 8 bits opcode of the request or 0, 24 bits QPN
	cqeLast      = 60 // 16 bits WQE counter, 8 signature, 4 opcode, 2 format, 1 solicited, 1 owner
	cqeOpOwn     = 63
	cqeSize      = 64
)

// Bits and values of cqeCsumOK and cqeL3Type.
const (
	csumL3OK = 1 << 1
	csumL4OK = 1 << 2
	l3IPv4   = 2

	vlanPresent = 1 << 0
)

func load8(e unsafe.Pointer, off uintptr) uint8 { return *(*uint8)(unsafe.Add(e, off)) }
func load16(e unsafe.Pointer, off uintptr) uint16 {
	return endian.Big16(*(*uint16)(unsafe.Add(e, off)))
}
func load32(e unsafe.Pointer, off uintptr) uint32 {
	return endian.Big32(*(*uint32)(unsafe.Add(e, off)))
}
func load64(e unsafe.Pointer, off uintptr) uint64 {
	return endian.Big64(*(*uint64)(unsafe.Add(e, off)))
}

func store16(e unsafe.Pointer, off uintptr, v uint16) {
	*(*uint16)(unsafe.Add(e, off)) = endian.Big16(v)
}
func store32(e unsafe.Pointer, off uintptr, v uint32) {
	*(*uint32)(unsafe.Add(e, off)) = endian.Big32(v)
}
