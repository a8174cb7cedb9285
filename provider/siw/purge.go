// SPDX-License-Identifier: Apache-2.0

package siw

import (
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
// other QPs for the next polls. It calls dropped, if that is not nil, with the ID of each receive whose
// completion it removes.
func (c *cq) purge(qp uint32, dropped func(id uint64)) {
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
		switch {
		case wc[0].QPNum != qp:
			kept = append(kept, completion{after: c.get, wc: wc[0]})
		case wc[0].Opcode == provider.WCRecv && dropped != nil:
			dropped(wc[0].ID)
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
