// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// cqContext fills the context of a queue in memory.
func (d *device) cqContext(c []byte, buf []byte, size int) {
	prm.CQC.LogCQSize.Set(c, uint64(bits.TrailingZeros(uint(len(buf)/size))))
	prm.CQC.PageOffset.Set(c, offset(buf)/64)
	if size == 128 {
		prm.CQC.CQESize.Set(c, prm.CQESize128)
	}
}

// MakeCQ creates a completion queue.
func (d *device) MakeCQ(q *mlx5test.CQ) error {
	switch {
	case q.Create.CQECompEn != 0 && q.CQESize != 64:
		return syscall.EOPNOTSUPP // the device does not compress these entries
	case offset(q.Buf)%64 != 0:
		return syscall.EINVAL
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	page, ok := d.uars[q.UAR]
	if !ok {
		return syscall.EINVAL
	}
	d.mem.add(q.Buf)
	d.mem.add(q.DB)
	out, err := d.command(prm.OpCreateCQ, 0x110, pageList(q.Buf), 16, func(in []byte) {
		c := prm.CQIn.Context.Of(in)
		d.cqContext(c, q.Buf, q.CQESize)
		prm.CQC.UARPage.Set(c, uint64(page))
		prm.CQC.EQN.Set(c, uint64(d.events.n))
		prm.CQC.DBRAddr.Set(c, address(q.DB))
		if q.Create.CQECompEn != 0 {
			prm.CQC.Compression.Set(c, 1)
			if q.Create.CQECompResFormat == abi.MLX5_IB_CQE_RES_FORMAT_CSUM {
				prm.CQC.MiniFormat.Set(c, prm.MiniChecksum)
			}
		}
	})
	if err != nil {
		d.mem.remove(q.Buf)
		d.mem.remove(q.DB)
		return err
	}
	q.Num = uint32(prm.ObjectOut.Number.Get(out))
	d.cqs[q.Num] = q
	return nil
}

// ResizeCQ moves a completion queue to other memory.
func (d *device) ResizeCQ(q *mlx5test.CQ, buf []byte, size int) error {
	if offset(buf)%64 != 0 {
		return syscall.EINVAL
	}
	d.mem.add(buf)
	_, err := d.command(prm.OpModifyCQ, 0x110, pageList(buf), 16, func(in []byte) {
		prm.HeaderIn.OpMod.Set(in, prm.OpModResizeCQ)
		prm.CQIn.CQN.Set(in, uint64(q.Num))
		prm.CQIn.Select.Set(in, prm.ResizeCQEverything)
		d.cqContext(prm.CQIn.Context.Of(in), buf, size)
	})
	if err != nil {
		d.mem.remove(buf)
		return err
	}
	d.mem.remove(q.Buf)
	return nil
}

// EndCQ destroys a completion queue.
func (d *device) EndCQ(q *mlx5test.CQ) {
	d.end(prm.OpDestroyCQ, q.Num)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.cqs, q.Num)
	d.mem.remove(q.Buf)
	d.mem.remove(q.DB)
}
