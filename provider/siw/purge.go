// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"sync"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
)

// The kernel gives the number of a QP to the next one as soon as it is free, and a
// completion says of its QP nothing else. So what a closed QP has left in its CQs
// would be taken for the next one's, and goes with it.
//
// All that the kernel completes of a QP stands in the CQs before DESTROY_QP frees the
// number: it flushes the queues within the command, and lets its sender and receiver
// complete nothing after that. (siw_destroy_qp, siw_free_qp.)

// purge takes the completions of a QP that has been destroyed out of the queue. The
// kernel fills the slots in order, and needs all of them: one in the middle can
// neither be given back nor be moved while the kernel goes on. So all that stands
// there is taken, as by a poll, and what is others' is kept for the next polls.
func (c *cq) purge(qp uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mapping == nil {
		return
	}
	n, of := c.standing(qp)
	if of == 0 {
		return
	}
	kept := make([]completion, 0, n-of)
	for range n {
		var wc [1]provider.WC
		if c.take(wc[:]) == 0 {
			break
		}
		if wc[0].QPNum != qp {
			kept = append(kept, completion{after: c.get, wc: wc[0]})
		}
	}
	c.soft.list = append(kept, c.soft.waiting()...)
	c.soft.head = 0
}

// standing returns how many completions are there, and how many of them are a QP's.
// The caller holds the lock.
func (c *cq) standing(qp uint32) (n, of int) {
	for i := c.get; n < c.slots.Len(); i++ {
		if valid, _, _ := cqeWord(c.slots.LoadWord(i)); !valid {
			break
		}
		n++
		if uint32(ring.InSlot[abi.SiwCQE](&c.slots, i).QPID) == qp {
			of++
		}
	}
	for _, f := range c.soft.waiting() {
		n++
		if f.wc.QPNum == qp {
			of++
		}
	}
	return n, of
}

// closing is the numbers of the QPs of a context that are being closed. The kernel
// frees the number before its command returns, and so before the CQs are clean. A QP
// that has got it by then must not have completions yet: it is nobody's until the
// other's Close has done its work.
type closing struct {
	mu   sync.Mutex
	done sync.Cond
	nums map[uint32]struct{}
}

func (c *closing) init() {
	c.done.L = &c.mu
	c.nums = map[uint32]struct{}{}
}

// begin says that the QP of a number is about to be destroyed.
func (c *closing) begin(num uint32) {
	c.mu.Lock()
	c.nums[num] = struct{}{}
	c.mu.Unlock()
}

// end says that its CQs are clean, or that it has not been destroyed.
func (c *closing) end(num uint32) {
	c.mu.Lock()
	delete(c.nums, num)
	c.mu.Unlock()
	c.done.Broadcast()
}

// wait returns when nobody closes a QP of that number.
func (c *closing) wait(num uint32) {
	c.mu.Lock()
	for {
		if _, closes := c.nums[num]; !closes {
			break
		}
		c.done.Wait()
	}
	c.mu.Unlock()
}
