// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// context is one open device file. The Kernel's lock guards it.
type context struct {
	*fakeuverbs.Context
	k    *Kernel
	cqs  map[uint32]*cq
	qps  map[uint32]*qp
	srqs map[uint32]*srq

	lastAH uint32
}

func newContext(k *Kernel, info uverbs.DeviceInfo) *context {
	c := &context{
		Context: fakeuverbs.New(info, &k.mu, k.Intercept), k: k,
		cqs: make(map[uint32]*cq), qps: make(map[uint32]*qp), srqs: make(map[uint32]*srq),
	}
	c.HandleRest()
	c.Attr.Base = deviceAttr
	if k.NoSRQ {
		c.Attr.Base.MaxSRQ = 0
	}
	c.Port = port
	c.GIDs = []abi.UverbsGIDEntry{fakeuverbs.IPv4GID(info)}
	c.Keys = func() (lkey, rkey uint32) {
		k.lastKey += 0x100
		return k.lastKey, k.lastKey
	}
	c.OnWrite = c.write
	c.OnClose = func() {
		delete(k.contexts, c)
		for _, q := range c.qps {
			delete(k.qps, q.num)
		}
	}
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, c.QueryDeviceEx)
	c.Handle(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, c.createCQ)
	c.HandleDestroy(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, c.destroyCQ)
	c.Handle(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, c.createQP)
	c.HandleDestroy(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY, c.destroyQP)
	c.Handle(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, c.createSRQ)
	c.HandleDestroy(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY, c.destroySRQ)
	c.Command(abi.IB_USER_VERBS_CMD_RESIZE_CQ, c.resizeCQ)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_SRQ, c.modifySRQ)
	c.Command(abi.IB_USER_VERBS_CMD_QUERY_SRQ, c.querySRQ)
	c.Command(abi.IB_USER_VERBS_CMD_CREATE_AH, c.createAH)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_QP, c.modifyQP)
	c.Command(abi.IB_USER_VERBS_CMD_QUERY_QP, c.queryQP)
	switch {
	case c.siw():
		c.beSIW()
	case c.erdma():
		c.beERDMA()
	}
	return c
}

// siw reports whether the device is one of siw.
func (c *context) siw() bool { return c.Info.DriverID == abi.RDMA_DRIVER_SIW }

// erdma reports whether the device is one of erdma.
func (c *context) erdma() bool { return c.Info.DriverID == abi.RDMA_DRIVER_ERDMA }

// driverResponse returns the buffer for the driver's response to CREATE_CQ or CREATE_QP, and the least sizes of the
// two responses.
func (c *context) driverResponse(req *uverbs.Request) (buf []byte, cq, qp int) {
	if a := req.Find(abi.UVERBS_ATTR_UHW_OUT); a != nil {
		buf = a.Buf
	}
	if c.erdma() {
		return buf, abi.Size[abi.ErdmaUrespCreateCQ](), abi.Size[abi.ErdmaUrespCreateQP]()
	}
	return buf, abi.Size[abi.RxeCreateCQResp](), abi.Size[abi.RxeCreateQPResp]()
}

// createAH responds with the number that work requests use for the handle.
func (c *context) createAH(cmd *fakeuverbs.Command) error {
	if err := c.CreateAH(cmd); err != nil {
		return err
	}
	c.lastAH++
	cmd.AnswerDriver(abi.Bytes(&abi.RxeCreateAHResp{AHNum: c.lastAH}))
	return nil
}

// write executes the two commands of the data path.
func (c *context) write(cmd []byte) error {
	body := cmd[abi.Size[abi.UverbsCmdHdr]():]
	switch abi.View[abi.UverbsCmdHdr](cmd).Command {
	case abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		n := abi.View[abi.UverbsReqNotifyCQ](body)
		q := c.cqs[n.CQHandle]
		if q == nil {
			return syscall.EINVAL
		}
		q.arm(n.SolicitedOnly != 0)
		return nil
	case abi.IB_USER_VERBS_CMD_POST_SEND:
		p := abi.View[abi.UverbsPostSend](body)
		q := c.qps[p.QPHandle]
		if q == nil || p.WRCount != 0 || int(p.WQESize) < abi.Size[abi.UverbsSendWR]() {
			return syscall.EINVAL
		}
		return q.doorbell()
	}
	return syscall.EOPNOTSUPP
}

// newQueue allocates memory for a queue and returns the queue with its mmap offset and size.
func (c *context) newQueue(items, elem int) (*queue, abi.RxeMminfo, error) {
	q, err := newQueue(items, elem)
	if err != nil {
		return nil, abi.RxeMminfo{}, err
	}
	return q, abi.RxeMminfo{Offset: c.Offer(q.mem), Size: uint32(len(q.mem.Bytes()))}, nil
}
