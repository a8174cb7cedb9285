// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/ring"
	"purerdma/uverbs"
)

// How a CQ is armed.
const (
	notArmed = iota
	armedSolicited
	armedNext
)

// cq is a completion queue.
type cq struct {
	q       *queue
	event   abi.UverbsCompEventDesc
	channel fakeuverbs.Channel
	armed   int
	users   int
}

func (c *context) createCQ(req *uverbs.Request) error {
	uhw := req.Find(abi.UVERBS_ATTR_UHW_OUT)
	entries := uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_CQE))
	if entries == 0 || entries > 32767 || uhw == nil || len(uhw.Buf) < abi.Size[abi.RxeCreateCQResp]() {
		return syscall.EINVAL
	}
	q := &cq{event: abi.UverbsCompEventDesc{CQHandle: fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE)}}
	var err error
	if q.channel, err = c.Channel(req, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); err != nil {
		return err
	}
	var resp abi.RxeCreateCQResp
	if q.q, resp.MI, err = c.newQueue(int(entries), abi.Size[abi.UverbsWC]()); err != nil {
		return err
	}
	h := c.NewHandle()
	c.cqs[h] = q
	req.Find(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Value = uint64(h)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries)
	fakeuverbs.Put(req, abi.UVERBS_ATTR_UHW_OUT, &resp)
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

func (q *cq) arm(solicitedOnly bool) {
	if solicitedOnly {
		q.armed = max(q.armed, armedSolicited)
	} else {
		q.armed = armedNext
	}
}

// push adds a completion. One that does not fit is lost, as it is with a device.
func (q *cq) push(wc *abi.UverbsWC, solicited bool) {
	r := &q.q.ring
	next := r.Next(q.q.own)
	if next == r.LoadConsumer() {
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
