// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// States of a QP: enum ib_qp_state of the kernel.
const (
	stateReset = iota
	stateInit
	stateRTR
	stateRTS
	stateSQD
	stateSQE
	stateErr
)

// Attributes of a QP: enum ib_qp_attr_mask of the kernel.
const (
	attrState    = 1 << 0
	attrCurState = 1 << 1
	attrAccess   = 1 << 3
	attrPort     = 1 << 5
	attrQKey     = 1 << 6
	attrAV       = 1 << 7
	attrPathMTU  = 1 << 8
	attrRNRRetry = 1 << 11
	attrRQPSN    = 1 << 12
	attrSQPSN    = 1 << 16
	attrDestQPN  = 1 << 20
)

// nextStates lists the states that follow each state, in addition to RESET and ERR.
var nextStates = [...][]uint8{
	stateReset: {stateInit},
	stateInit:  {stateInit, stateRTR},
	stateRTR:   {stateRTS},
	stateRTS:   {stateRTS, stateSQD},
	stateSQD:   {stateRTS, stateSQD},
	stateSQE:   {stateRTS},
	stateErr:   {},
}

// needs returns the attributes that a transition needs, which depend on the type of the QP.
func (q *QP) needs(from, state uint8) uint32 {
	connected := q.Type != abi.IB_UVERBS_QPT_UD && q.Type != abi.IB_UVERBS_QPT_RAW_PACKET && q.Type != abi.IB_UVERBS_QPT_DRIVER
	switch {
	case state == stateInit && from == stateReset && q.Type == abi.IB_UVERBS_QPT_UD:
		return attrPort | attrQKey
	case state == stateInit && from == stateReset:
		return attrPort
	case state == stateRTR && connected:
		return attrAV | attrPathMTU | attrDestQPN | attrRQPSN
	case state == stateRTS && connected && from == stateRTR:
		return attrSQPSN
	}
	return 0
}

func (c *context) modifyQP(cmd *fakeuverbs.Command, in *abi.UverbsModifyQP) error {
	var drv abi.Mlx5ModifyQP
	copyStruct(&drv, cmd.DriverIn)
	q := c.qps[in.QPHandle]
	if q == nil || in.QPState > stateErr {
		return syscall.EINVAL
	}
	from := q.state
	if in.AttrMask&attrCurState != 0 { // the device may have changed the state
		if from = in.CurQPState; from > stateErr {
			return syscall.EINVAL
		}
	}
	state := from
	if in.AttrMask&attrState != 0 {
		state = in.QPState
		allowed := state == stateReset || state == stateErr
		for _, s := range nextStates[from] {
			allowed = allowed || s == state
		}
		if needs := q.needs(from, state); !allowed || in.AttrMask&needs != needs {
			return syscall.EINVAL
		}
	}
	if in.AttrMask&attrPort != 0 && in.PortNum != 1 {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		if err := h.MoveQP(q, from, state, in, drv.ECEOptions); err != nil {
			return err
		}
	} else {
		q.ECE = grantECE(drv.ECEOptions)
	}
	q.remember(in)
	if in.AttrMask&attrState != 0 {
		q.state = state
	}
	r := abi.Mlx5ModifyQPResp{ResponseLength: uint32(abi.Size[abi.Mlx5ModifyQPResp]()), ECEOptions: q.ECE}
	if q.isDCT() && in.AttrMask&attrState != 0 && state == stateRTR {
		r.DCTN = q.Num
	}
	cmd.AnswerDriver(abi.Bytes(&r))
	return nil
}

// remember stores the attributes for QUERY_QP.
func (q *QP) remember(in *abi.UverbsModifyQP) {
	a := &q.attr
	for mask, set := range map[uint32]func(){
		attrAccess:   func() { a.QPAccessFlags = in.QPAccessFlags },
		1 << 4:       func() { a.PKeyIndex = in.PKeyIndex },
		attrPort:     func() { a.PortNum = in.PortNum },
		attrQKey:     func() { a.QKey = in.QKey },
		attrAV:       func() { a.Dest = in.Dest },
		attrPathMTU:  func() { a.PathMTU = in.PathMTU },
		1 << 9:       func() { a.Timeout = in.Timeout },
		1 << 10:      func() { a.RetryCnt = in.RetryCnt },
		attrRNRRetry: func() { a.RNRRetry = in.RNRRetry },
		attrRQPSN:    func() { a.RQPSN = in.RQPSN },
		1 << 13:      func() { a.MaxRdAtomic = in.MaxRdAtomic },
		1 << 14: func() {
			a.AltDest, a.AltPortNum, a.AltPKeyIndex, a.AltTimeout = in.AltDest, in.AltPortNum, in.AltPKeyIndex, in.AltTimeout
		},
		1 << 15:     func() { a.MinRNRTimer = in.MinRNRTimer },
		attrSQPSN:   func() { a.SQPSN = in.SQPSN },
		1 << 17:     func() { a.MaxDestRdAtomic = in.MaxDestRdAtomic },
		1 << 18:     func() { a.PathMigState = in.PathMigState },
		attrDestQPN: func() { a.DestQPNum = in.DestQPNum },
	} {
		if in.AttrMask&mask != 0 {
			set()
		}
	}
}

func (c *context) queryQP(cmd *fakeuverbs.Command) error {
	q := c.qps[fakeuverbs.Input[abi.UverbsQueryQP](cmd).QPHandle]
	if q == nil {
		return syscall.EINVAL
	}
	state, draining := q.state, false
	if h := c.hardware(); h != nil {
		var err error
		if state, draining, err = h.QPState(q); err != nil {
			return err
		}
	}
	a := &q.attr
	r := abi.UverbsQueryQPResp{
		Dest: a.Dest, AltDest: a.AltDest, MaxSendWR: q.Cap.MaxSendWR, MaxRecvWR: q.Cap.MaxRecvWR, MaxSendSGE: q.Cap.MaxSendSGE,
		MaxRecvSGE: q.Cap.MaxRecvSGE, MaxInlineData: q.Cap.MaxInlineData, QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN,
		DestQPNum: a.DestQPNum, QPAccessFlags: a.QPAccessFlags, PKeyIndex: a.PKeyIndex, AltPKeyIndex: a.AltPKeyIndex,
		QPState: state, CurQPState: state, PathMTU: a.PathMTU, PathMigState: a.PathMigState, MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, PortNum: a.PortNum, Timeout: a.Timeout,
		RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, AltPortNum: a.AltPortNum, AltTimeout: a.AltTimeout,
	}
	if q.SignalAll {
		r.SQSigAll = 1
	}
	if draining {
		r.SQDraining = 1
	}
	fakeuverbs.Answer(cmd, &r)
	return nil
}
