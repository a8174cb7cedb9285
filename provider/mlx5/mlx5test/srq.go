// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"math/bits"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// SRQ is a shared receive queue. The exported fields do not change.
type SRQ struct {
	Num        uint32
	Handle     uint32
	UserHandle uint64
	Type       uint8             // IB_UVERBS_SRQT_...
	Create     abi.Mlx5CreateSRQ // driver-specific input of the command
	MaxWR      uint32
	MaxSGE     uint32
	Buf        []byte // receives, each of which contains the index of the next
	Stride     int    // bytes of one receive
	DB         []byte // doorbell record with the number of posted receives
	CQ         *CQ    // of type XRC

	c     *context
	pd    *fakeuverbs.PD
	xrcd  *fakeuverbs.XRCD
	users int
	limit uint32
}

func (c *context) handleSRQ() {
	c.Handle(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, c.createSRQ)
	c.HandleDestroy(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY, c.destroySRQ)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_SRQ, c.modifySRQ)
	c.Command(abi.IB_USER_VERBS_CMD_QUERY_SRQ, func(cmd *fakeuverbs.Command) error {
		q := c.srqs[fakeuverbs.Input[abi.UverbsQuerySRQ](cmd).SRQHandle]
		if q == nil {
			return syscall.EINVAL
		}
		limit := q.limit
		if h := c.hardware(); h != nil {
			var err error
			if limit, err = h.Limit(q); err != nil {
				return err
			}
		}
		fakeuverbs.Answer(cmd, &abi.UverbsQuerySRQResp{MaxWR: q.MaxWR, MaxSGE: q.MaxSGE, SRQLimit: limit})
		return nil
	})
}

// createSRQ responds like mlx5_ib_create_srq.
func (c *context) createSRQ(req *uverbs.Request) error {
	raw := fakeuverbs.DriverIn(req)
	if len(raw) < 20 { // up to Flags
		return syscall.EINVAL
	}
	q := &SRQ{
		c: c, Type: uint8(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_TYPE)),
		UserHandle: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
		MaxWR:      uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR)),
		MaxSGE:     uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE)),
		limit:      uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_LIMIT)),
		pd:         c.PDs[fakeuverbs.Handle(req, abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)],
	}
	copyStruct(&q.Create, raw)
	if q.pd == nil || q.MaxWR == 0 || q.MaxWR > c.resp.MaxSRQRecvWR || q.MaxSGE > 62 || q.Create.Reserved0 != 0 || q.Create.Reserved1 != 0 ||
		q.Create.Flags&^abi.MLX5_SRQ_FLAG_SIGNATURE != 0 || c.resp.CQEVersion == 1 && q.Create.UIdx > 0xffffff {
		return syscall.EINVAL
	}
	switch q.Type {
	case abi.IB_UVERBS_SRQT_BASIC:
	case abi.IB_UVERBS_SRQT_XRC:
		q.xrcd = c.XRCDs[fakeuverbs.Handle(req, abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE)]
		q.CQ = c.cqs[fakeuverbs.Handle(req, abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE)]
		if q.xrcd == nil || q.CQ == nil {
			return syscall.EINVAL
		}
	default:
		return syscall.EOPNOTSUPP
	}
	receives := 1 << bits.Len32(q.MaxWR)
	q.Stride = max(32, 1<<bits.Len32(16+16*q.MaxSGE-1))
	q.MaxWR = uint32(receives - 1)
	var err error
	if q.Buf, err = userMemory(q.Create.BufAddr, receives*q.Stride); err != nil {
		return err
	}
	if q.DB, err = userMemory(q.Create.DBAddr, 8); err != nil {
		return err
	}
	q.Num, q.Handle = 0x900+c.k.madeSRQs, c.NewHandle()
	if h := c.hardware(); h != nil {
		if err := h.MakeSRQ(q); err != nil {
			return err
		}
	}
	c.k.madeSRQs++
	q.use(1)
	c.srqs[q.Handle] = q
	c.k.srqs = append(c.k.srqs, q)
	fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, q.Handle)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &q.MaxWR)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &q.MaxSGE)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &q.Num)
	fakeuverbs.PutDriver(req, &abi.Mlx5CreateSRQResp{SRQN: q.Num})
	return nil
}

func (q *SRQ) use(n int) {
	q.pd.Users += n
	if q.xrcd != nil {
		q.xrcd.Users += n
		q.CQ.users += n
	}
}

func (q *SRQ) busy() bool { return q.users > 0 }

func (q *SRQ) end() {
	if h := q.c.hardware(); h != nil {
		h.EndSRQ(q)
	}
}

func (c *context) destroySRQ(req *uverbs.Request) error {
	return destroy(c.srqs, &c.k.srqs, fakeuverbs.Handle(req, abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE))
}

// modifySRQ arms the limit. mlx5 cannot resize a shared receive queue.
func (c *context) modifySRQ(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsModifySRQ](cmd)
	q := c.srqs[in.SRQHandle]
	if q == nil || in.AttrMask != uverbs.SRQLimit || in.SRQLimit > q.MaxWR {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		return h.SetLimit(q, in.SRQLimit)
	}
	q.limit = in.SRQLimit
	return nil
}

// RecvCounter returns the number of posted receives from the doorbell record, modulo 2^16.
func (q *SRQ) RecvCounter() uint16 { return uint16(load(q.DB)) }
