// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"net"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Modify changes the attributes that mask names, and with QPAttrState the state. It waits for a
// Batch. Resetting a QP drops the requests in its queues and their completions.
func (q *QP) Modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() {
		return net.ErrClosed
	}
	move := mask&provider.QPAttrState != 0
	reset := move && attr.State == provider.QPReset
	if q.failure.Load() == qpFailed && !reset {
		// For the kernel the QP is in RESET, which it must not leave with its queues as they are:
		// the device would take receives that have completed.
		if move && attr.State == provider.QPErr {
			return nil
		}
		return &provider.QPStateError{State: provider.QPErr}
	}
	if reset {
		q.admit(false, false)
	}
	if err := q.modify(attr, mask); err != nil {
		q.setState(q.State()) // also what admit has changed
		return err
	}
	if !move {
		return nil
	}
	if reset && !q.dct {
		q.purge()
		q.lockBoth()
		q.reset()
		q.unlockBoth()
		q.resets++
		q.failure.Store(qpSound)
	}
	q.setState(attr.State)
	return nil
}

// modify runs the command that the attributes need.
func (q *QP) modify(attr *provider.QPAttr, mask provider.QPAttrMask) error {
	cmd := provider.ModifyCommand(q.handle, attr, mask)
	if q.dct {
		return q.modifyDCT(&cmd)
	}
	rate := mask&provider.QPAttrRateLimit != 0
	if !rate && q.nextECE == 0 {
		return q.file.ModifyQP(&cmd)
	}
	ex := abi.UverbsExModifyQP{Base: cmd}
	if rate {
		ex.RateLimit = attr.RateLimit
	}
	resp, err := q.modifyEx(&ex)
	if err == nil {
		q.granted(&resp)
	}
	return err
}

// modifyEx runs the command that takes the driver's own data.
func (q *QP) modifyEx(cmd *abi.UverbsExModifyQP) (resp abi.Mlx5ModifyQPResp, err error) {
	drv := abi.Mlx5ModifyQP{ECEOptions: q.nextECE}
	err = q.file.ModifyQPEx(cmd, uverbs.Driver{In: abi.Bytes(&drv), Out: abi.Bytes(&resp)})
	return resp, err
}

// SetState records that the QP was moved by another party, such as by the device to an error state.
func (q *QP) SetState(s provider.QPState) {
	q.commands.Lock() // otherwise the queues might take requests after end has closed them
	defer q.commands.Unlock()
	if !q.closed.Load() {
		q.setState(s)
	}
}

// setState is SetState for the holder of q.commands.
func (q *QP) setState(s provider.QPState) {
	q.state.Store(uint32(s))
	sound := q.failure.Load() != qpFailed
	send := s == provider.QPRTS || s == provider.QPSQD || s == provider.QPSQE || s == provider.QPErr
	q.admit(sound && send, sound && s != provider.QPReset)
}

// admit sets whether requests may be posted. A raw packet QP may post receives from INIT on, but
// the device does not get them before RTR.
func (q *QP) admit(send, recv bool) {
	q.lockBoth()
	q.allow(send, recv)
	q.sq.setFastPath()
	if r := &q.rq; r.mute && q.State() >= provider.QPRTR && q.recvReady.Load() {
		r.mute = false
		r.publish()
	}
	q.unlockBoth()
}

// allow is the part of admit that a goroutine may execute while another one posts without locks. The
// caller holds q.commands. Posts test these atomic fields anyway.
func (q *QP) allow(send, recv bool) {
	s := &q.sq
	send = send && s.ops != nil
	reg := s.reg
	if !send || s.slow {
		reg = nil
	}
	s.fast.reg.Store(reg)
	s.ready.Store(send)
	q.recvReady.Store(recv && q.cap.RecvWR > 0)
}
