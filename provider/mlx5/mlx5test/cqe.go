// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "encoding/binary"

// Opcodes of completions: MLX5_CQE_... of libmlx5.
const (
	CQEReq       = 0  // of a send queue
	CQERespWrite = 1  // a WRITE with immediate data came
	CQERespSend  = 2  // a SEND came
	CQERespImm   = 3  // a SEND with immediate data came
	CQERespInv   = 4  // a SEND with invalidation came
	CQEResize    = 5  // the ring goes on elsewhere
	CQEReqErr    = 13 // a send failed
	CQERespErr   = 14 // a receive failed
	CQEInvalid   = 15 // the device has not filled this place
)

// cqeSolicited is a bit of the last byte.
const cqeSolicited = 1 << 1

// Syndromes of failed requests: MLX5_CQE_SYNDROME_... of libmlx5.
const (
	SyndromeLocalLength      = 0x01
	SyndromeLocalQPOp        = 0x02
	SyndromeLocalProt        = 0x04
	SyndromeFlush            = 0x05
	SyndromeMWBind           = 0x06
	SyndromeBadResponse      = 0x10
	SyndromeLocalAccess      = 0x11
	SyndromeRemoteInvalid    = 0x12
	SyndromeRemoteAccess     = 0x13
	SyndromeRemoteOp         = 0x14
	SyndromeRetryExceeded    = 0x15
	SyndromeRNRRetryExceeded = 0x16
	SyndromeRemoteAborted    = 0x22
)

// CQE is one completion as a device writes it (struct mlx5_cqe64 and struct
// mlx5_err_cqe of libmlx5). What does not belong to its Opcode stays 0.
type CQE struct {
	Opcode    uint8
	Format    uint8 // 0, or where Data is: 1 for 32 bytes of the completion, 2 for the 64 bytes before it
	Solicited bool
	// UserIndex names the QP, or the SRQ that a receive was taken from.
	UserIndex  uint32
	QPN        uint32
	SendOpcode uint8 // of a send: MLX5_OPCODE_...
	WQECounter uint16
	ByteCount  uint32
	Imm        uint32 // immediate data, or the key that was invalidated
	Timestamp  uint64

	// Of a receive.
	GRH       uint8 // 0 without; 1, 2, 3 for IPv6 or InfiniBand, IPv4, ...
	SrcQPN    uint32
	SLID      uint16
	SL        uint8
	PathBits  uint8
	PKeyIndex uint16 // takes the place of Imm

	// Of a failure.
	Syndrome, VendorSyndrome uint8

	// Data is what the device scatters to the completion instead of to memory.
	Data []byte
}

// Bytes returns the completion in size bytes, 64 or 128, for CQ.Complete.
func (e *CQE) Bytes(size int) []byte {
	b := make([]byte, size)
	e.put(b)
	return b
}

// put is Bytes into memory that is there.
func (e *CQE) put(b []byte) {
	clear(b)
	size := len(b)
	c := b[size-64:]
	be := binary.BigEndian
	be.PutUint32(c[32:], e.UserIndex)
	be.PutUint16(c[60:], e.WQECounter)
	be.PutUint32(c[56:], uint32(e.SendOpcode)<<24|e.QPN&0xffffff)
	c[63] = e.Opcode<<4 | e.Format<<2
	if e.Solicited {
		c[63] |= cqeSolicited
	}
	if e.Opcode == CQEReqErr || e.Opcode == CQERespErr {
		c[54], c[55] = e.VendorSyndrome, e.Syndrome
		return
	}
	be.PutUint32(c[36:], e.Imm|uint32(e.PKeyIndex))
	be.PutUint32(c[44:], e.ByteCount)
	be.PutUint64(c[48:], e.Timestamp)
	if e.Opcode != CQEReq {
		c[17] = e.PathBits
		be.PutUint16(c[22:], e.SLID)
		be.PutUint32(c[24:], uint32(e.GRH)<<28|uint32(e.SL)<<24|e.SrcQPN&0xffffff)
	}
	switch e.Format {
	case 1:
		copy(c[:32], e.Data)
	case 2:
		copy(b[:size-64], e.Data)
	}
}
