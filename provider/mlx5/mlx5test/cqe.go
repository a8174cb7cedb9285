// SPDX-License-Identifier: Apache-2.0

package mlx5test

import "purerdma/test/connectx/prm"

// Opcodes of completions. The CQEResp opcodes are of receives, for the operation that the peer
// posted.
const (
	CQEReq       = prm.CQEReq       // send
	CQERespWrite = prm.CQERespWrite // WRITE with immediate data
	CQERespSend  = prm.CQERespSend  // SEND
	CQERespImm   = prm.CQERespImm   // SEND with immediate data
	CQERespInv   = prm.CQERespInv   // SEND with invalidation
	CQEResize    = prm.CQEResize    // ring continues in other memory
	CQEReqErr    = prm.CQEReqErr    // failed send
	CQERespErr   = prm.CQERespErr   // failed receive
	CQEInvalid   = prm.CQEInvalid   // entry not written yet
)

// CQE is one completion in the device's format (struct mlx5_cqe64 and struct mlx5_err_cqe of
// libmlx5). Fields that do not apply to the Opcode stay 0.
type CQE struct {
	Opcode    uint8
	Format    uint8 // 0, or the location of Data: 1 for 32 bytes of the completion, 2 for the 64 bytes before it
	Solicited bool
	// UserIndex names the QP, or the SRQ that a receive was taken from.
	UserIndex  uint32
	QPN        uint32
	SendOpcode uint8 // of a send (MLX5_OPCODE_...)
	WQECounter uint16
	ByteCount  uint32
	Imm        uint32 // immediate data, or the key that was invalidated
	Timestamp  uint64

	// Fields of receives.
	GRH       uint8 // 0 without; 1, 2, 3 for IPv6 or InfiniBand, IPv4, ...
	SrcQPN    uint32
	SLID      uint16
	SL        uint8
	PathBits  uint8
	PKeyIndex uint16 // replaces Imm

	// Fields of failures.
	Syndrome, VendorSyndrome uint8

	// Data holds the bytes that the device scatters to the completion instead of to memory.
	Data []byte
}

// Bytes returns the completion in size bytes, 64 or 128, for CQ.Complete.
func (e *CQE) Bytes(size int) []byte {
	b := make([]byte, size)
	e.put(b)
	return b
}

// put writes the completion to b.
func (e *CQE) put(b []byte) {
	clear(b)
	data, c, l := b[:len(b)-prm.CQELen], b[len(b)-prm.CQELen:], &prm.CQE
	l.UserIndex.Set(c, uint64(e.UserIndex))
	l.WQECounter.Set(c, uint64(e.WQECounter))
	l.SendOpcode.Set(c, uint64(e.SendOpcode))
	l.QPN.Set(c, uint64(e.QPN))
	l.Opcode.Set(c, uint64(e.Opcode))
	l.Format.Set(c, uint64(e.Format))
	if e.Solicited {
		l.Solicited.Set(c, 1)
	}
	if e.Opcode == CQEReqErr || e.Opcode == CQERespErr {
		l.VendorSyndrome.Set(c, uint64(e.VendorSyndrome))
		l.Syndrome.Set(c, uint64(e.Syndrome))
		return
	}
	l.Imm.Set(c, uint64(e.Imm|uint32(e.PKeyIndex)))
	l.ByteCount.Set(c, uint64(e.ByteCount))
	l.Timestamp.Set(c, e.Timestamp)
	if e.Opcode != CQEReq {
		l.MLPath.Set(c, uint64(e.PathBits))
		l.SLID.Set(c, uint64(e.SLID))
		l.GRH.Set(c, uint64(e.GRH))
		l.SL.Set(c, uint64(e.SL))
		l.RemoteQPN.Set(c, uint64(e.SrcQPN))
	}
	switch e.Format {
	case 1:
		copy(l.Inline.Of(c), e.Data)
	case 2:
		copy(data, e.Data)
	}
}
