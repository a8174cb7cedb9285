// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// Hardware is a device that executes the posted requests. The kernel checks the commands of a
// program, and passes them to the device. The methods are called with the kernel's lock held.
// The program gets their errors.
type Hardware interface {
	fakeuverbs.Hardware

	// MakeUAR sets the ID of the page.
	MakeUAR(*UAR) error
	// UnmapUAR is called before the memory of the page is unmapped.
	UnmapUAR(*UAR)
	EndUAR(*UAR)

	// MakeCQ, MakeSRQ and MakeQP set the number of the queue.
	MakeCQ(*CQ) error
	// ResizeCQ continues the queue in the memory buf, with completions of size bytes.
	ResizeCQ(q *CQ, buf []byte, size int) error
	EndCQ(*CQ)

	MakeSRQ(*SRQ) error
	SetLimit(q *SRQ, limit uint32) error
	Limit(*SRQ) (uint32, error)
	EndSRQ(*SRQ)

	// MakeQP also sets q.ECE to the options of q.Create.ECEOptions that the device grants.
	MakeQP(q *QP) error
	// MoveQP moves the QP from one state to another or to the current one, and sets the
	// attributes in the mask of attr. A DC target gets its number in RTR. MoveQP sets q.ECE to
	// the options of ece that the device grants.
	MoveQP(q *QP, from, to uint8, attr *abi.UverbsModifyQP, ece uint32) error
	// QPState returns the actual state of the QP, and whether its send queue is still draining.
	QPState(*QP) (state uint8, draining bool, err error)
	EndQP(*QP)
	Attach(q *QP, gid [16]byte) error
	Detach(q *QP, gid [16]byte) error
}

// hardware returns the device, or nil if the test acts as the device.
func (c *context) hardware() Hardware {
	h, _ := c.Context.Hardware.(Hardware)
	return h
}

// unmapped informs the device of a page that is unmapped.
func (c *context) unmapped(b []byte) {
	for _, u := range c.uars {
		if &u.Mem[0] == &b[0] {
			c.hardware().UnmapUAR(u)
		}
	}
}

// endQueues removes all queues of the context from the device.
func (c *context) endQueues() {
	h := c.hardware()
	if h == nil {
		return
	}
	for _, q := range c.qps {
		for gid := range q.groups {
			h.Detach(q, gid)
		}
		h.EndQP(q)
	}
	for _, q := range c.srqs {
		h.EndSRQ(q)
	}
	for _, q := range c.cqs {
		h.EndCQ(q)
	}
	for _, u := range c.uars {
		h.EndUAR(u)
	}
}

// Notify sends the queue's completion event to its channel, if it has one.
func (q *CQ) Notify() {
	q.c.k.mu.Lock()
	defer q.c.k.mu.Unlock()
	if !q.c.Closed() {
		q.channel.Complete(&q.event)
	}
}

// PD returns the number of the QP's protection domain, or 0 if it has none.
func (q *QP) PD() uint32 { return pdNumber(q.pd) }

// PD returns the number of the SRQ's protection domain, or 0 if it has none.
func (q *SRQ) PD() uint32 { return pdNumber(q.pd) }

func pdNumber(p *fakeuverbs.PD) uint32 {
	if p == nil {
		return 0
	}
	return p.Number
}

// XRCD returns the number of the QP's XRC domain, or 0 if it has none.
func (q *QP) XRCD() uint32 { return xrcdNumber(q.xrcd) }

// XRCD returns the number of the SRQ's XRC domain, or 0 if it has none.
func (q *SRQ) XRCD() uint32 { return xrcdNumber(q.xrcd) }

func xrcdNumber(x *fakeuverbs.XRCD) uint32 {
	if x == nil {
		return 0
	}
	return x.Number
}

// IsDCT reports whether the QP is a DC target.
func (q *QP) IsDCT() bool { return q.isDCT() }

// CQEVersion returns the version of completions in the program's context. It determines how
// completions identify queues.
func (q *QP) CQEVersion() uint8 { return q.c.resp.CQEVersion }
