// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"sync"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
)

// The kernel reuses the number of a QP as soon as it is free, and the number is all that a
// completion contains about its QP. The leftover completions of a closed QP would therefore be
// taken for completions of the next QP. clean removes them.
//
// All completions of a QP are in the CQs before DESTROY_QP frees the number. The kernel flushes the
// queues within the command, and lets its sender and receiver complete nothing after that
// (siw_destroy_qp, siw_free_qp).

// purge takes the completions of a destroyed QP out of the queue. The kernel fills the slots in
// order, and needs all of them. A slot in the middle can neither be returned nor be moved while the
// kernel continues. So purge takes all completions, as a poll does, and keeps the completions of
// other QPs for the next polls.
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

// standing returns the number of completions in the queue, and how many of them belong to a QP. The
// caller holds the lock.
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

// closing lists the numbers of the QPs of a context that are being closed. The kernel frees the
// number before its command returns, and so before the CQs are clean. A new QP with that number
// must not have completions until then. Its creator waits until the Close of the old QP has
// finished.
type closing struct {
	mu   sync.Mutex
	done sync.Cond
	nums map[uint32]struct{}
}

func (c *closing) init() {
	c.done.L = &c.mu
	c.nums = map[uint32]struct{}{}
}

// begin records that the QP of a number is about to be destroyed.
func (c *closing) begin(num uint32) {
	c.mu.Lock()
	c.nums[num] = struct{}{}
	c.mu.Unlock()
}

// end records that the QP's CQs are clean, or that it has not been destroyed.
func (c *closing) end(num uint32) {
	c.mu.Lock()
	delete(c.nums, num)
	c.mu.Unlock()
	c.done.Broadcast()
}

// wait returns when no QP of that number is being closed.
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
