// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"sync/atomic"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/ring"
	"purerdma/uverbs"
)

// maxCQE is the size of the largest completion queue.
const maxCQE = 32767

// Arming states of a CQ.
const (
	notArmed = iota
	armedSolicited
	armedNext
)

// cq is a completion queue.
type cq struct {
	c       *context
	q       *queue
	event   abi.UverbsCompEventDesc
	channel fakeuverbs.Channel
	armed   int
	users   int

	// A CQ of siw has slots instead of q. The program arms it by control.
	slots   *slots
	control *atomic.Uint32

	erdma *erdmaCQ // or nil
}

func (c *context) createCQ(req *uverbs.Request) error {
	uhw, size, _ := c.driverResponse(req)
	entries := uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_CQE))
	if entries == 0 || entries > maxCQE || len(uhw) < size {
		return syscall.EINVAL
	}
	q := &cq{c: c, event: abi.UverbsCompEventDesc{CQHandle: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE)}}
	var err error
	if q.channel, err = c.Channel(req, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); err != nil {
		return err
	}
	switch {
	case c.siw():
		resp, err := q.createSIW(int(entries))
		if err != nil {
			return err
		}
		entries = resp.NumCQE
		fakeuverbs.PutDriver(req, &resp)
	case c.erdma():
		resp, err := q.createERDMA(entries, fakeuverbs.DriverIn(req))
		if err != nil {
			return err
		}
		entries = resp.NumCQE
		fakeuverbs.PutDriver(req, &resp)
	default:
		var resp abi.RxeCreateCQResp
		if q.q, resp.MI, err = c.newQueue(int(entries), abi.Size[abi.UverbsWC]()); err != nil {
			return err
		}
		fakeuverbs.PutDriver(req, &resp)
	}
	h := c.NewHandle()
	c.cqs[h] = q
	req.Find(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Value = uint64(h)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries)
	return nil
}

func (c *context) destroyCQ(req *uverbs.Request) error {
	h := uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_DESTROY_CQ_HANDLE))
	q := c.cqs[h]
	if q == nil {
		return syscall.ENOENT
	}
	if q.users > 0 {
		return syscall.EBUSY
	}
	delete(c.cqs, h)
	return nil
}

// resizeCQ moves the completions that were not polled to a new ring.
func (c *context) resizeCQ(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsResizeCQ](cmd)
	q := c.cqs[in.CQHandle]
	if q == nil || in.CQE == 0 || in.CQE > maxCQE || q.q.filled() > int(in.CQE) {
		return syscall.EINVAL
	}
	to, mi, err := c.newQueue(int(in.CQE), abi.Size[abi.UverbsWC]())
	if err != nil {
		return err
	}
	for i := q.q.ring.LoadConsumer(); i != q.q.own; i = q.q.ring.Next(i) {
		*ring.At[abi.UverbsWC](&to.ring, to.own) = *ring.At[abi.UverbsWC](&q.q.ring, i)
		to.own = to.ring.Next(to.own)
	}
	to.ring.StoreProducer(to.own)
	q.q = to
	fakeuverbs.Answer(cmd, &abi.UverbsResizeCQResp{CQE: in.CQE})
	cmd.AnswerDriver(abi.Bytes(&abi.RxeResizeCQResp{MI: mi}))
	return nil
}

func (q *cq) arm(solicitedOnly bool) {
	if solicitedOnly {
		q.armed = max(q.armed, armedSolicited)
	} else {
		q.armed = armedNext
	}
}

// push adds a completion. If the ring is full, the completion is lost and an event reports it,
// as with rxe.
func (q *cq) push(wc *abi.UverbsWC, solicited bool) {
	switch {
	case q.slots != nil:
		q.pushSIW(wc, solicited)
		return
	case q.erdma != nil:
		q.pushERDMA(wc, solicited)
		return
	}
	r := &q.q.ring
	next := r.Next(q.q.own)
	if next == r.LoadConsumer() {
		q.c.Event(uverbs.EventCQErr, q.event.CQHandle)
		return
	}
	*ring.At[abi.UverbsWC](r, q.q.own) = *wc
	q.q.own = next
	r.StoreProducer(next)
	if q.armed == armedNext || q.armed == armedSolicited && solicited {
		q.armed = notArmed
		q.channel.Complete(&q.event)
	}
}
