// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"encoding/binary"
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// WQEBB is the unit of the send ring, in bytes.
const WQEBB = 64

// noRegister is the register index of a QP that has its own page.
const noRegister = ^uint32(0)

// legacyRegister is the register of QPs whose context came with pages. It counts four registers
// in a page, as the response does, and is the first register of the second page.
const legacyRegister = 4

// QP is a queue pair. The exported fields do not change, except ECE.
type QP struct {
	Num        uint32
	Handle     uint32
	UserHandle uint64
	Type       uint8 // IB_UVERBS_QPT_...
	Cap        abi.UverbsQPCap
	SignalAll  bool
	Create     abi.Mlx5CreateQP // driver-specific input
	SQ, RQ     []byte           // rings, empty if the QP has none
	RQStride   int              // bytes of one receive
	DB         []byte           // doorbell record: posted receives, posted WQEBBs
	UAR        *UAR             // register page, nil if the QP sends nothing
	SendCQ     *CQ
	RecvCQ     *CQ
	SRQ        *SRQ
	ECE        uint32 // options that the device granted with the last command

	c     *context
	pd    *fakeuverbs.PD
	xrcd  *fakeuverbs.XRCD
	state uint8
	attr  abi.UverbsModifyQP // attributes set by Modify
	// groups holds the multicast groups whose packets the QP receives.
	groups map[[16]byte]bool
}

func (c *context) handleQP() {
	c.Handle(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, c.createQP)
	c.HandleDestroy(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY, c.destroyQP)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_QP, func(cmd *fakeuverbs.Command) error {
		return c.modifyQP(cmd, fakeuverbs.Input[abi.UverbsModifyQP](cmd))
	})
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_MODIFY_QP, func(cmd *fakeuverbs.Command) error {
		in := fakeuverbs.Input[abi.UverbsExModifyQP](cmd)
		fakeuverbs.Answer(cmd, &abi.UverbsExModifyQPResp{ResponseLength: uint32(abi.Size[abi.UverbsExModifyQPResp]())})
		return c.modifyQP(cmd, &in.Base)
	})
	c.Command(abi.IB_USER_VERBS_CMD_QUERY_QP, c.queryQP)
	c.Command(abi.IB_USER_VERBS_CMD_ATTACH_MCAST, c.attach)
	c.Command(abi.IB_USER_VERBS_CMD_DETACH_MCAST, c.detach)
}

// createQP responds like create_qp of mlx5_ib.
func (c *context) createQP(req *uverbs.Request) error {
	q := &QP{
		c:          c,
		Type:       uint8(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_TYPE)),
		UserHandle: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE),
		SignalAll:  fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_FLAGS)&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0,
		Cap:        *abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf),
	}
	raw := fakeuverbs.DriverIn(req)
	if len(raw) < 32 { // up to Flags
		return syscall.EINVAL
	}
	copyStruct(&q.Create, raw)
	if err := q.find(req); err != nil {
		return err
	}
	resp := abi.Mlx5CreateQPResp{BFRegIndex: noRegister}
	if q.isDCT() {
		if q.SRQ == nil || q.SendCQ == nil {
			return syscall.EINVAL
		}
	} else if err := q.layOut(&resp); err != nil {
		return err
	}
	if c.resp.CQEVersion == 1 && q.Create.UIdx > 0xffffff {
		return syscall.EINVAL
	}
	c.k.madeQPs++
	q.Num, q.Handle = 0x0abc00+c.k.madeQPs, c.NewHandle()
	if h := c.hardware(); h != nil {
		if err := h.MakeQP(q); err != nil {
			return err
		}
	} else {
		q.ECE = grantECE(q.Create.ECEOptions)
	}
	resp.ECEOptions = q.ECE
	q.use(1)
	c.qps[q.Handle] = q
	c.k.qps = append(c.k.qps, q)
	fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_QP_HANDLE, q.Handle)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &q.Cap)
	num := q.Num
	if q.isDCT() {
		num = 0 // no number before RTR
	}
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &num)
	fakeuverbs.PutDriver(req, &resp)
	return nil
}

// find looks up the parents of the QP.
func (q *QP) find(req *uverbs.Request) error {
	c := q.c
	lookup := func(id uint16, need bool, ok func(handle uint32) bool) error {
		if req.Find(id) == nil {
			if need {
				return syscall.EINVAL
			}
			return nil
		}
		if !ok(fakeuverbs.Handle(req, id)) {
			return syscall.EINVAL
		}
		return nil
	}
	isTarget, sends := q.Type == abi.IB_UVERBS_QPT_XRC_TGT, q.Type != abi.IB_UVERBS_QPT_XRC_TGT
	switch q.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC, abi.IB_UVERBS_QPT_UD, abi.IB_UVERBS_QPT_RAW_PACKET,
		abi.IB_UVERBS_QPT_XRC_INI, abi.IB_UVERBS_QPT_XRC_TGT:
	case abi.IB_UVERBS_QPT_DRIVER:
		if bits.OnesCount32(q.Create.Flags&(abi.MLX5_QP_FLAG_TYPE_DCT|abi.MLX5_QP_FLAG_TYPE_DCI)) != 1 {
			return syscall.EINVAL
		}
	default:
		return syscall.EOPNOTSUPP
	}
	for _, l := range []struct {
		id   uint16
		need bool
		ok   func(handle uint32) bool
	}{
		{abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, sends, func(h uint32) bool { q.pd = c.PDs[h]; return q.pd != nil }},
		{abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, isTarget, func(h uint32) bool { q.xrcd = c.XRCDs[h]; return q.xrcd != nil }},
		{abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, false, func(h uint32) bool { q.SRQ = c.srqs[h]; return q.SRQ != nil }},
		{abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, sends, func(h uint32) bool { q.SendCQ = c.cqs[h]; return q.SendCQ != nil }},
		{abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, sends && q.Type != abi.IB_UVERBS_QPT_XRC_INI,
			func(h uint32) bool { q.RecvCQ = c.cqs[h]; return q.RecvCQ != nil }},
	} {
		if err := lookup(l.id, l.need, l.ok); err != nil {
			return err
		}
	}
	return nil
}

// layOut finds the rings and the register page.
func (q *QP) layOut(resp *abi.Mlx5CreateQPResp) error {
	in, c := &q.Create, q.c
	receives := q.SRQ == nil && q.RecvCQ != nil && q.Type != abi.IB_UVERBS_QPT_DRIVER && q.Cap.MaxRecvWR > 0
	switch {
	case in.SQWQECount > c.resp.MaxSendWQEBB || in.SQWQECount&(in.SQWQECount-1) != 0,
		receives && (in.RQWQECount == 0 || in.RQWQECount > c.resp.MaxRecvWR || in.RQWQECount&(in.RQWQECount-1) != 0),
		receives && (in.RQWQEShift < 4 || 1<<in.RQWQEShift > uint32(c.resp.MaxRQDescSz)),
		q.Type != abi.IB_UVERBS_QPT_XRC_TGT && q.Cap.MaxSendWR > 0 && in.SQWQECount == 0:
		return syscall.EINVAL
	}
	rq := 0
	if receives {
		q.RQStride = 1 << in.RQWQEShift
		rq = int(in.RQWQECount) << in.RQWQEShift
	}
	sq := int(in.SQWQECount) * WQEBB
	var err error
	if q.Type == abi.IB_UVERBS_QPT_RAW_PACKET {
		if q.RQ, err = userMemory(in.BufAddr, rq); err != nil {
			return err
		}
		if q.SQ, err = userMemory(in.SQBufAddr, sq); err != nil {
			return err
		}
	} else {
		all, err := userMemory(in.BufAddr, rq+sq)
		if err != nil {
			return err
		}
		q.RQ, q.SQ = all[:rq:rq], all[rq:]
	}
	if q.Type == abi.IB_UVERBS_QPT_XRC_TGT {
		return nil // the QP has no queues of its own
	}
	if q.DB, err = userMemory(in.DBAddr, 8); err != nil {
		return err
	}
	const flags = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX | abi.MLX5_QP_FLAG_BFREG_INDEX
	switch in.Flags & flags {
	case abi.MLX5_QP_FLAG_UAR_PAGE_INDEX:
		if q.UAR = c.dynamicUAR(in.BFRegIndex); q.UAR == nil {
			return syscall.EINVAL
		}
	case abi.MLX5_QP_FLAG_BFREG_INDEX:
		if q.UAR = c.legacyUAR(in.BFRegIndex / 2); q.UAR == nil {
			return syscall.EINVAL
		}
		resp.BFRegIndex = in.BFRegIndex
	case 0:
		if c.dynamic {
			return syscall.EINVAL
		}
		resp.BFRegIndex = legacyRegister
		q.UAR = c.legacyUAR(legacyRegister / 4)
	default:
		return syscall.EINVAL
	}
	return nil
}

func (q *QP) isDCT() bool {
	return q.Type == abi.IB_UVERBS_QPT_DRIVER && q.Create.Flags&abi.MLX5_QP_FLAG_TYPE_DCT != 0
}

// use adds n to the number of users of the QP's parents.
func (q *QP) use(n int) {
	if q.pd != nil {
		q.pd.Users += n
	}
	if q.xrcd != nil {
		q.xrcd.Users += n
	}
	if q.SRQ != nil {
		q.SRQ.users += n
	}
	for _, cq := range []*CQ{q.SendCQ, q.RecvCQ} {
		if cq != nil {
			cq.users += n
		}
	}
	if q.UAR != nil {
		q.UAR.users += n
	}
}

func (q *QP) busy() bool { return len(q.groups) > 0 }

func (q *QP) end() {
	if h := q.c.hardware(); h != nil {
		h.EndQP(q)
	}
}

func (c *context) destroyQP(req *uverbs.Request) error {
	return destroy(c.qps, &c.k.qps, fakeuverbs.Handle(req, abi.UVERBS_ATTR_DESTROY_QP_HANDLE))
}

// SendCounter returns the number of posted WQEBBs from the doorbell record, modulo 2^16.
func (q *QP) SendCounter() uint16 { return uint16(load(q.DB[4:])) }

// RecvCounter returns the number of posted receives from the doorbell record, modulo 2^16.
func (q *QP) RecvCounter() uint16 { return uint16(load(q.DB)) }

// SendWQE returns n bytes of the send ring from WQEBB index on. It wraps around at the end of
// the ring.
func (q *QP) SendWQE(index uint16, n int) []byte {
	b := make([]byte, 0, n)
	for off := int(index) * WQEBB; len(b) < n; off += WQEBB {
		b = append(b, q.SQ[off%len(q.SQ):][:min(WQEBB, n-len(b))]...)
	}
	return b
}

// SendDescriptor is a decoded work request of a send queue.
type SendDescriptor struct {
	Index  uint16 // of its first WQEBB
	Opcode uint8  // MLX5_OPCODE_...
	QPN    uint32
	Bytes  []byte // the whole request
	Flags  uint8  // fence, signaled, solicited: MLX5_WQE_CTRL_...
	Imm    uint32
}

// SendAt decodes the request at WQEBB index.
func (q *QP) SendAt(index uint16) SendDescriptor {
	ctrl := q.SendWQE(index, 16)
	be := binary.BigEndian
	d := SendDescriptor{Index: uint16(be.Uint32(ctrl) >> 8), Opcode: ctrl[3], QPN: be.Uint32(ctrl[4:]) >> 8, Flags: ctrl[11], Imm: be.Uint32(ctrl[12:])}
	d.Bytes = q.SendWQE(index, min(int(ctrl[7]&0x3f)*16, len(q.SQ)))
	return d
}
