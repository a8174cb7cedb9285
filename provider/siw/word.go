// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"encoding/binary"

	"purerdma/abi"
)

// The third word of every slot holds its flags, VALID among them. The other fields of the word are
// set together with them. It is loaded and stored as a whole, because there are no atomic
// operations on less than 32 bits.
const wordAt = 8

// wqeWord returns the word of a request (struct siw_sqe, struct siw_rqe).
func wqeWord(flags uint16, numSGE, opcode uint8) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint16(b[:], flags)
	b[2], b[3] = numSGE, opcode
	return binary.NativeEndian.Uint32(b[:])
}

// wqeValid reports whether a slot for requests belongs to the kernel.
func wqeValid(word uint32) bool {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], word)
	return binary.NativeEndian.Uint16(b[:])&abi.SIW_WQE_VALID != 0
}

// wqeOpcode returns the operation of a request.
func wqeOpcode(word uint32) uint8 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], word)
	return b[3]
}

// cqeWord splits the word of a completion (struct siw_cqe).
func cqeWord(word uint32) (valid bool, opcode uint8, status uint16) {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], word)
	return b[0]&abi.SIW_WQE_VALID != 0, b[1], binary.NativeEndian.Uint16(b[2:])
}
