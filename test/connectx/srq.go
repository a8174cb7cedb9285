// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// srq is a shared receive queue, either a receive memory pool or a queue of XRC.
type srq struct {
	n       uint32
	isXRC   bool
	context [240]byte // as set by the driver, for XRC the first 64 bytes
	receiveQueue
	pd    *pd
	limit uint16 // 0 for none
	// Fields of XRC.
	xrcd  *xrcd
	cq    *cq
	index uint32 // user index in completions
	users
}

// maxLogSRQ is the log2 of the maximum number of receives.
const maxLogSRQ = 15

var srqCommands = map[uint16]command{
	prm.OpCreateRMP:     {"CREATE_RMP", 0x110, 16, createRMP},
	prm.OpModifyRMP:     {"MODIFY_RMP", 0x110, 16, modifyRMP},
	prm.OpDestroyRMP:    {"DESTROY_RMP", 16, 16, func(d *Device, in, _ []byte) error { return d.destroySRQ(in, false) }},
	prm.OpQueryRMP:      {"QUERY_RMP", 16, 0x110, queryRMP},
	prm.OpCreateXRCSRQ:  {"CREATE_XRC_SRQ", 0x110, 16, createXRCSRQ},
	prm.OpDestroyXRCSRQ: {"DESTROY_XRC_SRQ", 16, 16, func(d *Device, in, _ []byte) error { return d.destroySRQ(in, true) }},
	prm.OpQueryXRCSRQ:   {"QUERY_XRC_SRQ", 16, 0x110, queryXRCSRQ},
	prm.OpArmXRCSRQ:     {"ARM_XRC_SRQ", 16, 16, armXRCSRQ},
}

func createRMP(d *Device, in, out []byte) (err error) {
	c := prm.RMPIn.Context.Of(in)
	w := prm.RMPC.WQ.Of(c)
	d.checkReserved("CREATE_RMP", &prm.RMPC, c)
	d.checkReserved("CREATE_RMP", &prm.WQ, w)
	s := &srq{context: [240]byte(c), limit: uint16(prm.WQ.LWM.Get(w))}
	if typ := prm.WQ.Type.Get(w); typ != prm.WQLinkedList && typ != prm.WQCyclic {
		return refuse(prm.StatusBadParam, "there are no pools of type %d", typ)
	}
	s.linked = prm.WQ.Type.Get(w) == prm.WQLinkedList
	if s.pd, err = d.pds.find(uint32(prm.WQ.PD.Get(w))); err != nil {
		return err
	}
	s.logSize, s.stride, s.record = uint(prm.WQ.LogSize.Get(w)), 1<<prm.WQ.LogStride.Get(w), prm.WQ.DBRAddr.Get(w)
	return d.addSRQ(s, prm.RMPIn.PAS.Of(in), prm.WQ.LogPageSize.Get(w), prm.WQ.PageOffset.Get(w), out)
}

func createXRCSRQ(d *Device, in, out []byte) (err error) {
	c := prm.XRCSRQIn.Context.Of(in)
	d.checkReserved("CREATE_XRC_SRQ", &prm.XRCSRQC, c)
	s := &srq{isXRC: true, limit: uint16(prm.XRCSRQC.LWM.Get(c)), index: uint32(prm.XRCSRQC.UserIndex.Get(c))}
	copy(s.context[:], c)
	s.linked = !prm.XRCSRQC.BasicCyclic.Is(c)
	if s.pd, err = d.pds.find(uint32(prm.XRCSRQC.PD.Get(c))); err != nil {
		return err
	}
	if s.xrcd, err = d.xrcds.find(uint32(prm.XRCSRQC.XRCD.Get(c))); err != nil {
		return err
	}
	if s.cq, err = d.cqs.find(uint32(prm.XRCSRQC.CQN.Get(c))); err != nil {
		return err
	}
	s.logSize, s.stride = uint(prm.XRCSRQC.LogSize.Get(c)), 16<<prm.XRCSRQC.LogStride.Get(c)
	s.record = prm.XRCSRQC.DBRHigh.Get(c)<<32 | prm.XRCSRQC.DBRLow.Get(c)<<2
	return d.addSRQ(s, prm.XRCSRQIn.PAS.Of(in), prm.XRCSRQC.LogPageSize.Get(c), prm.XRCSRQC.PageOffset.Get(c), out)
}

// addSRQ sets the memory and the number of a shared receive queue.
func (d *Device) addSRQ(s *srq, pas []byte, logPage, offset uint64, out []byte) (err error) {
	switch {
	case s.logSize > maxLogSRQ:
		return refuse(prm.StatusBadParam, "an SRQ has at most 2^%d receives, not 2^%d", maxLogSRQ, s.logSize)
	case s.stride < prm.Octoword || s.linked && s.stride < 2*prm.Octoword:
		return refuse(prm.StatusBadParam, "receives of %d bytes", s.stride)
	}
	if err := checkRecord(s.record); err != nil {
		return err
	}
	if s.buffer, err = d.newBuffer(pas, logPage, offset, s.stride<<s.logSize); err != nil {
		return err
	}
	if s.n, err = d.srqs.add(s); err != nil {
		return err
	}
	s.use(d, 1)
	prm.ObjectOut.Number.Set(out, uint64(s.n))
	return nil
}

func (s *srq) use(d *Device, n users) {
	s.buffer.hold(d, n)
	s.pd.users += n
	if s.isXRC {
		s.xrcd.users += n
		s.cq.users += n
	}
}

// findSRQ returns the queue with a number and a kind.
func (d *Device) findSRQ(n uint32, isXRC bool) (*srq, error) {
	s, err := d.srqs.find(n)
	if err == nil && s.isXRC != isXRC {
		err = refuse(prm.StatusBadResource, "SRQ %#x is of another kind", n)
	}
	return s, err
}

func (d *Device) destroySRQ(in []byte, isXRC bool) error {
	s, err := d.findSRQ(uint32(prm.ObjectIn.Number.Get(in)), isXRC)
	if err != nil {
		return err
	}
	if err := s.busy("SRQ", s.n); err != nil {
		return err
	}
	s.use(d, -1)
	delete(d.srqs.objects, s.n)
	return nil
}

func modifyRMP(d *Device, in, _ []byte) error {
	s, err := d.findSRQ(uint32(prm.RMPIn.RMPN.Get(in)), false)
	if err != nil {
		return err
	}
	if m := prm.RMPIn.Bitmask.Get(in); m&^prm.ModifyRMPLWM != 0 {
		return refuse(prm.StatusBadParam, "MODIFY_RMP cannot change %#x", m)
	} else if m != 0 {
		return s.setLimit(uint16(prm.WQ.LWM.Get(prm.RMPC.WQ.Of(prm.RMPIn.Context.Of(in)))))
	}
	return nil
}

func armXRCSRQ(d *Device, in, _ []byte) error {
	s, err := d.findSRQ(uint32(prm.ArmXRCSRQIn.SRQN.Get(in)), true)
	if err != nil {
		return err
	}
	if op := prm.HeaderIn.OpMod.Get(in); op != prm.XRCSRQArm {
		return refuse(prm.StatusBadParam, "ARM_XRC_SRQ cannot do %d", op)
	}
	return s.setLimit(uint16(prm.ArmXRCSRQIn.LWM.Get(in)))
}

// setLimit arms the event for fewer receives than limit.
func (s *srq) setLimit(limit uint16) error {
	if int(limit) > 1<<s.logSize {
		return refuse(prm.StatusBadParam, "SRQ %#x has 2^%d receives, and no limit of %d", s.n, s.logSize, limit)
	}
	s.limit = limit
	return nil
}

// checkLimit sends the event of the limit once.
func (s *srq) checkLimit(d *Device) {
	if s.limit == 0 || s.posted(d) >= s.limit {
		return
	}
	s.limit = 0
	d.queueEvent(prm.EventSRQLimit, s.n, prm.QueueTypeRQ)
}

func queryRMP(d *Device, in, out []byte) error {
	s, err := d.findSRQ(uint32(prm.ObjectIn.Number.Get(in)), false)
	if err != nil {
		return err
	}
	c := prm.RMPIn.Context.Of(out)
	copy(c, s.context[:])
	prm.RMPC.State.Set(c, prm.RMPReady)
	w := prm.RMPC.WQ.Of(c)
	prm.WQ.LWM.Set(w, uint64(s.limit))
	prm.WQ.HWCounter.Set(w, uint64(s.taken))
	prm.WQ.SWCounter.Set(w, uint64(s.taken+s.posted(d)))
	return nil
}

func queryXRCSRQ(d *Device, in, out []byte) error {
	s, err := d.findSRQ(uint32(prm.ObjectIn.Number.Get(in)), true)
	if err != nil {
		return err
	}
	c := prm.XRCSRQIn.Context.Of(out)
	copy(c, s.context[:])
	prm.XRCSRQC.LWM.Set(c, uint64(s.limit))
	prm.XRCSRQC.WQECount.Set(c, uint64(s.posted(d)))
	s.buffer.put(prm.XRCSRQIn.PAS.Of(out))
	return nil
}

// name returns the queue's name in violations.
func (s *srq) name() string { return fmt.Sprintf("SRQ %#x", s.n) }

// queueEvent sends an event of a QP or an SRQ.
func (d *Device) queueEvent(typ prm.EventType, n uint32, kind uint64) {
	d.event(typ, 0, func(data []byte) {
		prm.EventQPN.Set(data, uint64(n))
		prm.EventQueueType.Set(data, kind)
	})
}
