// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

// maxSGE is the maximum number of elements in a work request.
const maxSGE = 32

// States of a QP: enum ib_qp_state.
const (
	stateReset = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateErr
)

// attrState is IB_QP_STATE.
const attrState = 1 << 0

// qp is a reliable connected queue pair.
type qp struct {
	c        *context
	num      uint32
	pd       *fakeuverbs.PD
	send     *cq
	recv     *cq
	sq       *queue
	rq       *queue       // nil with a srq
	srq      *srq         // or nil
	sends    *slots       // of siw, or nil
	recvs    *slots       // of siw, or nil
	erdma    *erdmaQueues // or nil
	sigAll   bool
	cap      abi.UverbsQPCap
	state    uint32
	attr     abi.UverbsModifyQP // last attributes set by Modify
	retrying bool               // a timer that rings the doorbell again is running

	// The memory of the elements of one request, reused so that a doorbell does not allocate.
	local, scattered [maxSGE][]byte
}

func (c *context) createQP(req *uverbs.Request) error {
	uhw, _, size := c.driverResponse(req)
	caps := req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP)
	q := &qp{
		c:      c,
		pd:     c.PDs[uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE))],
		send:   c.cqs[uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE))],
		recv:   c.cqs[uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE))],
		sigAll: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_FLAGS)&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0,
	}
	srqAttr := req.Find(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE)
	if srqAttr != nil {
		q.srq = c.srqs[uint32(srqAttr.Value)]
	}
	if srqAttr != nil && q.srq == nil || len(uhw) < size || caps == nil || q.pd == nil || q.send == nil || q.recv == nil ||
		fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_QP_TYPE) != abi.IB_UVERBS_QPT_RC {
		return syscall.EINVAL
	}
	q.cap = *abi.View[abi.UverbsQPCap](caps.Buf)
	if q.cap.MaxSendSGE > maxSGE || q.cap.MaxRecvSGE > maxSGE || q.cap.MaxInlineData > 512 {
		return syscall.EINVAL
	}
	switch {
	case c.siw():
		resp, err := q.createSIW()
		if err != nil {
			return err
		}
		fakeuverbs.PutDriver(req, &resp)
	case c.erdma():
		resp, err := q.createERDMA(fakeuverbs.DriverIn(req))
		if err != nil {
			return err
		}
		resp.QPID = c.k.lastQPN + 1
		fakeuverbs.PutDriver(req, &resp)
	default:
		resp, err := q.createRXE()
		if err != nil {
			return err
		}
		fakeuverbs.PutDriver(req, &resp)
	}
	if q.srq != nil {
		q.cap.MaxRecvWR, q.cap.MaxRecvSGE = 0, q.srq.maxSGE
		q.srq.users++
	}
	q.pd.Users++
	q.send.users++
	q.recv.users++
	c.k.lastQPN++
	q.num = c.k.lastQPN
	h := c.NewHandle()
	c.qps[h], c.k.qps[q.num] = q, q
	req.Find(abi.UVERBS_ATTR_CREATE_QP_HANDLE).Value = uint64(h)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &q.cap)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &q.num)
	return nil
}

// createRXE creates the queues of a QP of rxe.
func (q *qp) createRXE() (resp abi.RxeCreateQPResp, err error) {
	// Elements and inline data share the same bytes of a slot.
	room := max(q.cap.MaxSendSGE*16, (q.cap.MaxInlineData+15)&^15)
	q.cap.MaxSendSGE, q.cap.MaxInlineData = room/16, room
	if q.sq, resp.SQMI, err = q.c.newQueue(int(q.cap.MaxSendWR), abi.Size[abi.RxeSendWQE]()+int(room)); err != nil || q.srq != nil {
		return resp, err
	}
	q.rq, resp.RQMI, err = q.c.newQueue(int(q.cap.MaxRecvWR), abi.Size[abi.RxeRecvWQE]()+16*int(q.cap.MaxRecvSGE))
	return resp, err
}

func (c *context) destroyQP(req *uverbs.Request) error {
	h := uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_DESTROY_QP_HANDLE))
	q := c.qps[h]
	if q == nil {
		return syscall.ENOENT
	}
	delete(c.qps, h)
	delete(c.k.qps, q.num)
	if c.k.ReuseNumbers && q.num == c.k.lastQPN {
		c.k.lastQPN--
	}
	q.pd.Users--
	q.send.users--
	q.recv.users--
	if q.srq != nil {
		q.srq.users--
	}
	return nil
}

func (c *context) modifyQP(req *fakeuverbs.Command) error {
	cmd := fakeuverbs.Input[abi.UverbsModifyQP](req)
	q := c.qps[cmd.QPHandle]
	if q == nil || cmd.QPState > stateErr {
		return syscall.EINVAL
	}
	if cmd.AttrMask&attrState == 0 {
		return nil
	}
	switch cmd.QPState {
	case stateReset:
		q.drop()
	case stateErr:
		q.toError()
	case stateRTR:
		q.attr.Dest, q.attr.DestQPNum, q.attr.PathMTU, q.attr.RQPSN = cmd.Dest, cmd.DestQPNum, cmd.PathMTU, cmd.RQPSN
	case stateRTS:
		q.attr.SQPSN, q.attr.RNRRetry = cmd.SQPSN, cmd.RNRRetry
	}
	q.state = uint32(cmd.QPState)
	return nil
}

func (c *context) queryQP(req *fakeuverbs.Command) error {
	q := c.qps[fakeuverbs.Input[abi.UverbsQueryQP](req).QPHandle]
	if q == nil {
		return syscall.EINVAL
	}
	fakeuverbs.Answer(req, &abi.UverbsQueryQPResp{
		Dest: q.attr.Dest, DestQPNum: q.attr.DestQPNum, PathMTU: q.attr.PathMTU, RQPSN: q.attr.RQPSN, SQPSN: q.attr.SQPSN,
		RNRRetry: q.attr.RNRRetry, QPState: uint8(q.state), CurQPState: uint8(q.state),
		MaxSendWR: q.cap.MaxSendWR, MaxRecvWR: q.cap.MaxRecvWR, MaxSendSGE: q.cap.MaxSendSGE, MaxRecvSGE: q.cap.MaxRecvSGE,
		MaxInlineData: q.cap.MaxInlineData, MaxRdAtomic: q.attr.MaxRdAtomic, MaxDestRdAtomic: q.attr.MaxDestRdAtomic,
	})
	return nil
}
