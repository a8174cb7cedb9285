// SPDX-License-Identifier: Apache-2.0

package mlx5

// Sizes in a work queue, bytes.
const (
	wqebb   = 64 // basic block of a send queue
	segment = 16 // what a WQE's size is counted in
)

// Operations of WQEs, and of the completions of requests.
const (
	opcodeSendInv  = 0x01
	opcodeWrite    = 0x08
	opcodeWriteImm = 0x09
	opcodeSend     = 0x0a
	opcodeSendImm  = 0x0b
	opcodeLSO      = 0x0e
	opcodeRead     = 0x10
	opcodeAtomicCS = 0x11
	opcodeAtomicFA = 0x12
	opcodeUMR      = 0x25
)

// Ethernet headers that must, or must at least, stand inline in a WQE of a raw
// packet QP, bytes.
const (
	ethL2Header  = 18
	ethMinHeader = 14
)
