// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
)

// buildGeneric writes the part of a send request that its operation needs, for those
// operations that move no scattered memory. The rest is there.
func (q *qp) buildGeneric(wqe *abi.RxeSendWQE, wr *provider.SendWR) error {
	if len(wr.SGList) > 0 || wr.InlineData != nil && wr.Opcode != provider.OpAtomicWrite {
		return fmt.Errorf("data in a %v: %w", wr.Opcode, syscall.EINVAL)
	}
	switch wr.Opcode {
	case provider.OpLocalInv:
		change, ours, err := q.windows.invalidate(wr.InvalidateRKey)
		if err != nil {
			return err
		}
		if ours {
			q.sq.changes = append(q.sq.changes, change)
		}
		binary.NativeEndian.PutUint32(wqe.WR.Ex[:], wr.InvalidateRKey)
	case provider.OpBindMW:
		b := wr.Bind
		if b == nil {
			return fmt.Errorf("%v without a window: %w", wr.Opcode, syscall.EINVAL)
		}
		mw := wqe.WR.MW()
		mw.Addr, mw.Length, mw.MRLKey = b.Addr, b.Length, b.LKey
		mw.MWRKey, mw.RKey, mw.Access = b.MW, b.RKey, uint32(b.Access)
		if change, ours := q.windows.bind(b.RKey); ours {
			q.sq.changes = append(q.sq.changes, change)
		}
	case provider.OpFlush:
		flush := wqe.WR.Flush()
		flush.RemoteAddr, flush.RKey = wr.RemoteAddr, wr.RKey
		flush.Type, flush.Level = uint8(wr.Flush.Type), uint8(wr.Flush.Level)
		// The kernel reads the length from the field of the data length.
		wqe.DMA.Length, wqe.DMA.Resid = wr.Flush.Length, wr.Flush.Length
	case provider.OpAtomicWrite:
		if len(wr.InlineData) != 8 || wr.RemoteAddr%8 != 0 {
			return fmt.Errorf("atomic write of %d bytes at %#x: %w", len(wr.InlineData), wr.RemoteAddr, syscall.EINVAL)
		}
		rdma := wqe.WR.RDMA()
		rdma.RemoteAddr, rdma.RKey = wr.RemoteAddr, wr.RKey
		wqe.DMA.Length, wqe.DMA.Resid = 8, 8
		copy(ring.Tail[byte](&q.sq.ring, q.sq.producer, sendHeader, 8), wr.InlineData)
	}
	return nil
}
