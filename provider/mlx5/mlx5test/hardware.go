// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// Hardware is a device that carries out what is posted, in the place of this package:
// the kernel checks what a program asks for, and has it done there. Its methods run
// with the kernel's lock held; an error is the program's.
type Hardware interface {
	fakeuverbs.Hardware

	// MakeUAR gives the page its ID.
	MakeUAR(*UAR) error
	// UnmapUAR is called before the memory of the page goes away.
	UnmapUAR(*UAR)
	EndUAR(*UAR)

	// MakeCQ, MakeSRQ and MakeQP give the queue its number.
	MakeCQ(*CQ) error
	// ResizeCQ has the queue go on in other memory, with completions of size bytes.
	ResizeCQ(q *CQ, buf []byte, size int) error
	EndCQ(*CQ)

	MakeSRQ(*SRQ) error
	SetLimit(q *SRQ, limit uint32) error
	Limit(*SRQ) (uint32, error)
	EndSRQ(*SRQ)

	// MakeQP also sets q.ECE to the options that the device grants of q.Create.ECEOptions.
	MakeQP(q *QP) error
	// MoveQP moves the QP from a state to another, or to the same, with the
	// attributes that the mask of attr names. A target of DC gets its number when
	// it comes to RTR. MoveQP sets q.ECE to the options that the device grants of ece.
	MoveQP(q *QP, from, to uint8, attr *abi.UverbsModifyQP, ece uint32) error
	// QPState is the state that the QP really is in, and whether its send queue is
	// still draining.
	QPState(*QP) (state uint8, draining bool, err error)
	EndQP(*QP)
	Attach(q *QP, gid [16]byte) error
	Detach(q *QP, gid [16]byte) error
}

// hardware returns the device, nil if this package plays it.
func (c *context) hardware() Hardware {
	h, _ := c.Context.Hardware.(Hardware)
	return h
}

// unmapped tells the device of a page that goes away.
func (c *context) unmapped(b []byte) {
	for _, u := range c.uars {
		if &u.Mem[0] == &b[0] {
			c.hardware().UnmapUAR(u)
		}
	}
}

// endQueues takes all queues of the context back.
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

// Notify gives the queue's completion event to its channel, if it has one.
func (q *CQ) Notify() {
	q.c.k.mu.Lock()
	defer q.c.k.mu.Unlock()
	if !q.c.Closed() {
		q.channel.Complete(&q.event)
	}
}

// PD is the number of the QP's protection domain, 0 if it has none.
func (q *QP) PD() uint32 { return pdNumber(q.pd) }

// PD is QP.PD for a shared receive queue.
func (q *SRQ) PD() uint32 { return pdNumber(q.pd) }

func pdNumber(p *fakeuverbs.PD) uint32 {
	if p == nil {
		return 0
	}
	return p.Number
}

// XRCD is the number of the QP's XRC domain, 0 if it has none.
func (q *QP) XRCD() uint32 { return xrcdNumber(q.xrcd) }

// XRCD is QP.XRCD for a shared receive queue.
func (q *SRQ) XRCD() uint32 { return xrcdNumber(q.xrcd) }

func xrcdNumber(x *fakeuverbs.XRCD) uint32 {
	if x == nil {
		return 0
	}
	return x.Number
}

// IsDCT says whether the QP is a target of DC.
func (q *QP) IsDCT() bool { return q.isDCT() }

// CQEVersion is that of the program's context, which says how completions name
// queues.
func (q *QP) CQEVersion() uint8 { return q.c.resp.CQEVersion }
