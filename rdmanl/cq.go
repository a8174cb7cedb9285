// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"purerdma/abi"
	"purerdma/internal/enum"
)

// CQ is a completion queue (RDMA_NLDEV_CMD_RES_CQ_GET).
type CQ struct {
	Attributes
	Number             uint32
	Entries            uint32
	Users              uint64      // QPs and SRQs that use it
	PollContext        PollContext // of a CQ of the kernel
	AdaptiveModeration bool
	Context            uint32 // Context.Number, for a CQ of a process
	Owner
	Driver []DriverValue
}

// PollContext is the place where the kernel polls a CQ of its own (enum ib_poll_context).
type PollContext uint8

// Places where the kernel polls.
const (
	PollDirect  PollContext = iota // in the caller
	PollSoftIRQ                    // in a soft interrupt
	PollWorkqueue
	PollUnboundWorkqueue
)

// String returns the name of the place, as "SOFTIRQ".
func (p PollContext) String() string {
	return enum.Name(p, "PollContext", []string{"DIRECT", "SOFTIRQ", "WORKQUEUE", "UNBOUND_WORKQUEUE"})
}

// CQs lists the CQs of a device.
func (c *Conn) CQs(device uint32) ([]CQ, error) {
	return objects(c, newRequest("list CQs of", abi.RDMA_NLDEV_CMD_RES_CQ_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_CQ, abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY, parseCQ)
}

func parseCQ(m value) (q CQ, ok bool) {
	for attr, v := range m.attributes() {
		q.add(attr)
		q.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_CQN:
			q.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_RES_CQE:
			q.Entries = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_USECNT:
			q.Users = v.number()
		case abi.RDMA_NLDEV_ATTR_RES_POLL_CTX:
			q.PollContext = PollContext(v.u8())
		case abi.RDMA_NLDEV_ATTR_DEV_DIM:
			q.AdaptiveModeration = v.flag()
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			q.Context = v.u32()
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			q.Driver = parseDriver(v)
		}
	}
	return q, ok
}
