// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"slices"
	"unsafe"

	"purerdma/provider"
)

// purge removes the completions of a QP that is reset or closed. Its entries stay in the ring without the handle of a
// QP, because each of them counts for the adapter.
func (c *cq) purge(q *qp) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.flushing.remove(q)
	if c.closed {
		return
	}
	i, phase := c.head, c.phase
	for range c.depth {
		e := c.entry(i)
		f := flags(e)
		if f&flagPhase != phase {
			break
		}
		switch f >> flagType & 15 {
		case typeSend, typeEnd:
			c.disown(e, cqeSendQP, q)
		case typeRecvRC, typeRecvUD:
			if c.disown(e, cqeRecvQP, q) && q.srq != nil {
				q.srq.drop(load32(e, cqeIndex) & indexMask)
			}
		}
		if i++; i == c.depth {
			i = 0
			phase ^= flagPhase
		}
	}
	c.added = slices.DeleteFunc(c.added, func(w provider.WC) bool { return w.QPNum == q.num })
	if c.qp == q {
		c.forget()
	}
}

// disown removes the handle of a QP from an entry, and reports whether the entry had it.
func (c *cq) disown(e unsafe.Pointer, at uintptr, q *qp) bool {
	if load64(e, at) != q.cookie {
		return false
	}
	put64(e, at, 0)
	return true
}
