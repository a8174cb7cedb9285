// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/ring"
	"purerdma/uverbs"
)

// srq is a shared receive queue.
type srq struct {
	c      *context
	q      *queue
	pd     *fakeuverbs.PD
	event  uint64 // user handle, which identifies the queue in events
	maxWR  uint32
	maxSGE uint32
	limit  uint32 // 0: not armed
	users  int
	slots  *slots // of siw, or nil
}

func (c *context) createSRQ(req *uverbs.Request) error {
	if c.k.NoSRQ {
		return syscall.EOPNOTSUPP
	}
	s := &srq{
		c:      c,
		pd:     c.PDs[fakeuverbs.Handle(req, abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)],
		event:  fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
		maxWR:  uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR)),
		maxSGE: uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE)),
		limit:  uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_LIMIT)),
	}
	if s.pd == nil || s.maxWR == 0 || s.maxWR > deviceAttr.MaxSRQWR || s.maxSGE > maxSGE || s.limit > s.maxWR ||
		fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_SRQ_TYPE) != abi.IB_UVERBS_SRQT_BASIC {
		return syscall.EINVAL
	}
	if c.siw() {
		resp, err := s.createSIW()
		if err != nil {
			return err
		}
		fakeuverbs.PutDriver(req, &resp)
	} else {
		var resp abi.RxeCreateSRQResp
		var err error
		if s.q, resp.MI, err = c.newQueue(int(s.maxWR), s.slot()); err != nil {
			return err
		}
		fakeuverbs.PutDriver(req, &resp)
	}
	s.pd.Users++
	h := c.NewHandle()
	c.srqs[h] = s
	fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, h)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &s.maxWR)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &s.maxSGE)
	return nil
}

// slot returns the size of a receive in bytes.
func (s *srq) slot() int { return abi.Size[abi.RxeRecvWQE]() + int(s.maxSGE)*abi.Size[abi.RxeSGE]() }

func (c *context) destroySRQ(req *uverbs.Request) error {
	h := fakeuverbs.Handle(req, abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE)
	s := c.srqs[h]
	switch {
	case s == nil:
		return syscall.ENOENT
	case s.users > 0:
		return syscall.EBUSY
	}
	s.pd.Users--
	delete(c.srqs, h)
	return nil
}

// modifySRQ sets the limit, or moves the posted receives to a new ring.
func (c *context) modifySRQ(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsModifySRQ](cmd)
	s := c.srqs[in.SRQHandle]
	if s == nil || s.slots == nil && len(cmd.DriverIn) < abi.Size[abi.RxeModifySRQCmd]() {
		return syscall.EINVAL
	}
	if s.slots != nil && in.AttrMask&uverbs.SRQMaxWR != 0 {
		return syscall.EOPNOTSUPP
	}
	if in.AttrMask&uverbs.SRQMaxWR != 0 {
		if in.MaxWR > deviceAttr.MaxSRQWR || s.q.ring.Count(s.q.ring.LoadProducer(), s.q.own) > int(in.MaxWR) {
			return syscall.EINVAL
		}
		mi, err := s.resize(in.MaxWR)
		if err != nil {
			return err
		}
		at := abi.View[abi.RxeModifySRQCmd](cmd.DriverIn).MmapInfoAddr
		copy(at.Slice(abi.Size[abi.RxeMminfo]()), abi.Bytes(&mi))
	}
	if in.AttrMask&uverbs.SRQLimit != 0 {
		if in.SRQLimit > s.maxWR {
			return syscall.EINVAL
		}
		s.limit = in.SRQLimit
		s.checkLimit()
	}
	return nil
}

func (s *srq) resize(maxWR uint32) (abi.RxeMminfo, error) {
	to, mi, err := s.c.newQueue(int(maxWR), s.slot())
	if err != nil {
		return mi, err
	}
	producer := uint32(0)
	for ; !s.q.empty(); s.q.pop() {
		copy(ring.Tail[byte](&to.ring, producer, 0, s.slot()), ring.Tail[byte](&s.q.ring, s.q.own, 0, s.slot()))
		producer = to.ring.Next(producer)
	}
	to.ring.StoreProducer(producer)
	s.q, s.maxWR = to, maxWR
	return mi, nil
}

func (c *context) querySRQ(cmd *fakeuverbs.Command) error {
	s := c.srqs[fakeuverbs.Input[abi.UverbsQuerySRQ](cmd).SRQHandle]
	if s == nil {
		return syscall.EINVAL
	}
	fakeuverbs.Answer(cmd, &abi.UverbsQuerySRQResp{MaxWR: s.maxWR, MaxSGE: s.maxSGE, SRQLimit: s.limit})
	return nil
}

// checkLimit reports once that fewer receives are posted than the limit.
func (s *srq) checkLimit() {
	pullRecvs(s.slots, s.q)
	if n := s.q.ring.Count(s.q.ring.LoadProducer(), s.q.own); s.limit > 0 && n < int(s.limit) {
		s.limit = 0
		s.c.Event(uverbs.EventSRQLimitReached, s.event)
	}
}
