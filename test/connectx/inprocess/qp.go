// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"encoding/binary"
	"syscall"

	"purerdma/abi"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// services has the transport service of each type of QP.
var services = map[uint8]uint64{
	abi.IB_UVERBS_QPT_RC: prm.ServiceRC, abi.IB_UVERBS_QPT_UC: prm.ServiceUC, abi.IB_UVERBS_QPT_UD: prm.ServiceUD,
	abi.IB_UVERBS_QPT_XRC_INI: prm.ServiceXRC, abi.IB_UVERBS_QPT_XRC_TGT: prm.ServiceXRC, abi.IB_UVERBS_QPT_DRIVER: prm.ServiceDCI,
}

// MakeQP creates a queue pair. A DC target is created in the device only when it moves to RTR. A QP of raw packets
// consists of other objects.
func (d *device) MakeQP(q *mlx5test.QP) error {
	if q.Type == abi.IB_UVERBS_QPT_RAW_PACKET {
		return d.makeRaw(q)
	}
	service, ok := services[q.Type]
	if !ok {
		return syscall.EOPNOTSUPP
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moved[q] = &rights{}
	if q.IsDCT() {
		return nil
	}
	ring := q.RQ[:len(q.RQ):len(q.RQ)]
	if len(q.SQ) > 0 {
		ring = q.SQ
		if len(q.RQ) > 0 { // the two queues are adjacent
			ring = q.Create.BufAddr.Slice(len(q.RQ) + len(q.SQ))
		}
	}
	if len(ring) > 0 && offset(ring)%64 != 0 {
		return syscall.EINVAL
	}
	var page uint32
	if q.UAR != nil {
		page = d.uars[q.UAR]
	}
	d.useQueue(q, ring, d.mem.add)
	out, err := d.command(prm.OpCreateQP, prm.QPInLen, pageList(ring), 16, func(in []byte) {
		c := prm.QPIn.Context.Of(in)
		prm.QPIn.ECE.Set(in, uint64(q.Create.ECEOptions))
		prm.QPC.Service.Set(c, service)
		d.qpObjects(c, q, page)
		if len(ring) > 0 {
			prm.QPC.PageOffset.Set(c, offset(ring)/64)
		}
		if q.DB != nil {
			prm.QPC.DBRAddr.Set(c, address(q.DB))
		}
		d.qpScatter(c, q)
	})
	if err != nil {
		d.useQueue(q, ring, d.mem.remove)
		delete(d.moved, q)
		return err
	}
	q.Num, q.ECE = uint32(prm.ObjectOut.Number.Get(out)), uint32(prm.QPOut.ECE.Get(out))
	d.qps[q.Num] = q
	d.moved[q].ring = ring
	return nil
}

// useQueue calls use, which adds or removes memory of the device, for the memory of a QP.
func (d *device) useQueue(q *mlx5test.QP, ring []byte, use func([]byte)) {
	if len(ring) > 0 {
		use(ring)
	}
	if q.DB != nil {
		use(q.DB)
	}
}

// qpObjects stores the parents of a QP and the lengths of its queues in a context.
func (d *device) qpObjects(c []byte, q *mlx5test.QP, page uint32) {
	prm.QPC.PMState.Set(c, 3)
	prm.QPC.PD.Set(c, uint64(q.PD()))
	if q.PD() == 0 { // an XRC target has no PD
		prm.QPC.PD.Set(c, uint64(d.pd))
	}
	prm.QPC.LogMsgMax.Set(c, 30)
	if q.CQEVersion() > 0 {
		prm.QPC.UserIndex.Set(c, uint64(q.Create.UIdx))
	}
	prm.QPC.XRCD.Set(c, uint64(q.XRCD()))
	if q.XRCD() == 0 { // an XRC initiator has no XRC domain
		prm.QPC.XRCD.Set(c, uint64(d.xrcd))
	}
	if q.Create.Flags&abi.MLX5_QP_FLAG_DCI_STREAM != 0 {
		prm.QPC.LogDCIStreams.Set(c, uint64(q.Create.DCIStreams.LogNumConcurent))
		prm.QPC.LogDCIErrored.Set(c, uint64(q.Create.DCIStreams.LogNumErrored))
	}
	if len(q.SQ) > 0 {
		prm.QPC.UARPage.Set(c, uint64(page))
		prm.QPC.SendCQN.Set(c, uint64(q.SendCQ.Num))
		prm.QPC.LogSQSize.Set(c, logOf(len(q.SQ)/prm.WQEBB))
	} else {
		prm.QPC.NoSQ.Set(c, 1)
	}
	switch {
	case q.SRQ != nil:
		prm.QPC.RQType.Set(c, prm.RQShared)
		prm.QPC.SRQN.Set(c, uint64(q.SRQ.Num))
		prm.QPC.RecvCQN.Set(c, uint64(q.RecvCQ.Num))
	case len(q.RQ) > 0:
		prm.QPC.RecvCQN.Set(c, uint64(q.RecvCQ.Num))
		prm.QPC.LogRQSize.Set(c, logOf(len(q.RQ)/q.RQStride))
		prm.QPC.LogRQStride.Set(c, logOf(q.RQStride)-4)
	default:
		prm.QPC.RQType.Set(c, prm.RQNone)
	}
}

// qpScatter stores in a context whether the device puts short data into completions.
func (d *device) qpScatter(c []byte, q *mlx5test.QP) {
	flags := q.Create.Flags
	if flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0 && q.RecvCQ != nil && q.Type != abi.IB_UVERBS_QPT_UD {
		prm.QPC.ScatterResp.Set(c, prm.ScatterResp32)
		if q.RecvCQ.CQESize == 128 {
			prm.QPC.ScatterResp.Set(c, prm.ScatterResp64)
		}
	}
	if q.SendCQ != nil && (flags&abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE != 0 || flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0 && q.SignalAll) {
		prm.QPC.ScatterReq.Set(c, prm.ScatterReq32)
		if q.SendCQ.CQESize == 128 {
			prm.QPC.ScatterReq.Set(c, prm.ScatterReq64)
		}
	}
}

// makeDCT creates a DC target.
func (d *device) makeDCT(q *mlx5test.QP, r *rights, ece uint32) error {
	out, err := d.command(prm.OpCreateDCT, 0x50, nil, 16, func(in []byte) {
		c := prm.DCTIn.Context.Of(in)
		prm.DCTC.UserIndex.Set(c, uint64(q.Create.UIdx))
		prm.DCTC.CQN.Set(c, uint64(q.SendCQ.Num))
		prm.DCTC.SRQN.Set(c, uint64(q.SRQ.Num))
		prm.DCTC.PD.Set(c, uint64(q.PD()))
		prm.DCTC.AccessKey.Set(c, binary.NativeEndian.Uint64(abi.Bytes(&q.Create)[accessKey:]))
		for bit, f := range map[uint32]prm.Field{
			abi.IB_UVERBS_ACCESS_REMOTE_READ: prm.DCTC.RemoteRead, abi.IB_UVERBS_ACCESS_REMOTE_WRITE: prm.DCTC.RemoteWrite,
			abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC: prm.DCTC.RemoteAtomic,
		} {
			if r.access&bit != 0 {
				f.Set(c, 1)
			}
		}
		prm.DCTC.MinRNRNAK.Set(c, uint64(r.rnrTimer))
		prm.DCTC.MTU.Set(c, uint64(r.mtu))
		prm.DCTC.Port.Set(c, 1)
		prm.DCTC.ECE.Set(c, uint64(ece))
	})
	if err != nil {
		return err
	}
	q.Num, q.ECE = uint32(prm.ObjectOut.Number.Get(out)), uint32(prm.QPOut.ECE.Get(out))
	r.isDCT = true
	d.qps[q.Num] = q
	return nil
}

// accessKey is the offset of a DC target's key in struct mlx5_ib_create_qp.
const accessKey = 40

// EndQP destroys a queue pair.
func (d *device) EndQP(q *mlx5test.QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.moved[q]
	delete(d.moved, q)
	switch {
	case r.isDCT:
		d.end(prm.OpDestroyDCT, q.Num)
	case q.IsDCT():
		return
	case r.raw != nil:
		d.endRaw(q, r.raw)
	default:
		d.end(prm.OpDestroyQP, q.Num)
		d.useQueue(q, r.ring, d.mem.remove)
	}
	delete(d.qps, q.Num)
}

// QPState returns the state of a queue pair, and whether its send queue is still draining.
func (d *device) QPState(q *mlx5test.QP) (state uint8, draining bool, err error) {
	d.mu.Lock()
	r := d.moved[q]
	d.mu.Unlock()
	switch {
	case q.IsDCT():
		return r.state, false, nil
	case r.raw != nil:
		state, err := d.rawState(r)
		return state, false, err
	}
	out, err := d.command(prm.OpQueryQP, 16, nil, prm.QPInLen, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(q.Num)) })
	if err != nil {
		return 0, false, err
	}
	of := prm.QPC.State.Get(prm.QPIn.Context.Of(out))
	return statesOfIB[of], of == prm.QPSQDraining, nil
}

// Attach adds a QP to a multicast group.
func (d *device) Attach(q *mlx5test.QP, gid [16]byte) error { return d.group(prm.OpAttachMCG, q, gid) }

// Detach removes a QP from a multicast group.
func (d *device) Detach(q *mlx5test.QP, gid [16]byte) error { return d.group(prm.OpDetachMCG, q, gid) }

func (d *device) group(opcode uint16, q *mlx5test.QP, gid [16]byte) error {
	_, err := d.command(opcode, 32, nil, 16, func(in []byte) {
		prm.MCGIn.QPN.Set(in, uint64(q.Num))
		copy(prm.MCGIn.GID.Of(in), gid[:])
	})
	return err
}
