// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// MakeSRQ creates a shared receive queue.
func (d *device) MakeSRQ(q *mlx5test.SRQ) (err error) {
	if offset(q.Buf)%64 != 0 {
		return syscall.EINVAL
	}
	d.mem.add(q.Buf)
	d.mem.add(q.DB)
	if q.Type == abi.IB_UVERBS_SRQT_XRC {
		err = d.makeXRCSRQ(q)
	} else {
		err = d.makeRMP(q)
	}
	if err != nil {
		d.mem.remove(q.Buf)
		d.mem.remove(q.DB)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.srqs[q.Num] = q
	return nil
}

func (d *device) makeRMP(q *mlx5test.SRQ) error {
	out, err := d.command(prm.OpCreateRMP, 0x110, pageList(q.Buf), 16, func(in []byte) {
		c := prm.RMPIn.Context.Of(in)
		prm.RMPC.State.Set(c, prm.RMPReady)
		w := prm.RMPC.WQ.Of(c)
		prm.WQ.Type.Set(w, prm.WQLinkedList)
		prm.WQ.PD.Set(w, uint64(q.PD()))
		prm.WQ.LogSize.Set(w, logOf(len(q.Buf)/q.Stride))
		prm.WQ.LogStride.Set(w, logOf(q.Stride))
		prm.WQ.PageOffset.Set(w, offset(q.Buf)/64)
		prm.WQ.DBRAddr.Set(w, address(q.DB))
	})
	if err == nil {
		q.Num = uint32(prm.ObjectOut.Number.Get(out))
	}
	return err
}

func (d *device) makeXRCSRQ(q *mlx5test.SRQ) error {
	out, err := d.command(prm.OpCreateXRCSRQ, 0x110, pageList(q.Buf), 16, func(in []byte) {
		c := prm.XRCSRQIn.Context.Of(in)
		prm.XRCSRQC.PD.Set(c, uint64(q.PD()))
		prm.XRCSRQC.XRCD.Set(c, uint64(q.XRCD()))
		prm.XRCSRQC.CQN.Set(c, uint64(q.CQ.Num))
		prm.XRCSRQC.UserIndex.Set(c, uint64(q.Create.UIdx))
		prm.XRCSRQC.LogSize.Set(c, logOf(len(q.Buf)/q.Stride))
		prm.XRCSRQC.LogStride.Set(c, logOf(q.Stride)-4)
		prm.XRCSRQC.PageOffset.Set(c, offset(q.Buf)/64)
		prm.XRCSRQC.DBRHigh.Set(c, address(q.DB)>>32)
		prm.XRCSRQC.DBRLow.Set(c, address(q.DB)>>2)
	})
	if err == nil {
		q.Num = uint32(prm.ObjectOut.Number.Get(out))
	}
	return err
}

func logOf(n int) uint64 { return uint64(bits.TrailingZeros(uint(n))) }

// SetLimit arms the event of a shared receive queue.
func (d *device) SetLimit(q *mlx5test.SRQ, limit uint32) error {
	if q.Type == abi.IB_UVERBS_SRQT_XRC {
		_, err := d.command(prm.OpArmXRCSRQ, 16, nil, 16, func(in []byte) {
			prm.HeaderIn.OpMod.Set(in, prm.XRCSRQArm)
			prm.ArmXRCSRQIn.SRQN.Set(in, uint64(q.Num))
			prm.ArmXRCSRQIn.LWM.Set(in, uint64(limit))
		})
		return err
	}
	_, err := d.command(prm.OpModifyRMP, 0x110, nil, 16, func(in []byte) {
		prm.RMPIn.RMPN.Set(in, uint64(q.Num))
		prm.RMPIn.RMPState.Set(in, prm.RMPReady)
		prm.RMPIn.Bitmask.Set(in, prm.ModifyRMPLWM)
		c := prm.RMPIn.Context.Of(in)
		prm.RMPC.State.Set(c, prm.RMPReady)
		prm.WQ.LWM.Set(prm.RMPC.WQ.Of(c), uint64(limit))
	})
	return err
}

// Limit returns the armed limit. It returns 0 if the limit was reached.
func (d *device) Limit(q *mlx5test.SRQ) (uint32, error) {
	opcode := uint16(prm.OpQueryRMP)
	if q.Type == abi.IB_UVERBS_SRQT_XRC {
		opcode = prm.OpQueryXRCSRQ
	}
	out, err := d.command(opcode, 16, nil, 0x110, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(q.Num)) })
	switch {
	case err != nil:
		return 0, err
	case opcode == prm.OpQueryXRCSRQ:
		return uint32(prm.XRCSRQC.LWM.Get(prm.XRCSRQIn.Context.Of(out))), nil
	}
	return uint32(prm.WQ.LWM.Get(prm.RMPC.WQ.Of(prm.RMPIn.Context.Of(out)))), nil
}

// EndSRQ destroys a shared receive queue.
func (d *device) EndSRQ(q *mlx5test.SRQ) {
	if q.Type == abi.IB_UVERBS_SRQT_XRC {
		d.end(prm.OpDestroyXRCSRQ, q.Num)
	} else {
		d.end(prm.OpDestroyRMP, q.Num)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.srqs, q.Num)
	d.mem.remove(q.Buf)
	d.mem.remove(q.DB)
}
