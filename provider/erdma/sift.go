// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"slices"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// sift filters the entries of the queue that were not polled. It calls keep with each, oldest first,
// and removes the entries for which keep returns false. Entries that the adapter adds during
// the call stay. The caller holds the lock.
func (c *cq) sift(keep func(e unsafe.Pointer, head uint32) bool) {
	var kept []uint32
	end := c.ci
	for end-c.ci <= c.mask {
		e := c.entry(end)
		head := header(e)
		if !c.written(end, head) {
			break
		}
		if keep(e, head) {
			kept = append(kept, end)
		}
		end++
	}
	if uint32(len(kept)) == end-c.ci {
		return
	}
	for _, i := range slices.Backward(kept) {
		if end--; end != i {
			c.move(end, i)
		}
	}
	c.setIndex(end)
}

// move copies entry i to entry to, with the owner bit of that entry.
func (c *cq) move(to, i uint32) {
	dst, src := c.entry(to), c.entry(i)
	copy(unsafe.Slice((*byte)(dst), blockSize), unsafe.Slice((*byte)(src), blockSize))
	owner := (*uint8)(dst) // The word is big-endian.
	*owner = *owner&^0x80 | uint8(^to>>(c.log&31)&1)<<7
}

// purge removes the completions of a QP that is reset or destroyed, and drops the reference to the QP.
func (c *cq) purge(q *qp) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.closed {
		return
	}
	c.sift(func(e unsafe.Pointer, _ uint32) bool { return big32(e, cqeQP) != q.num })
	c.added = slices.DeleteFunc(c.added, func(w provider.WC) bool { return w.QPNum == q.num })
	c.forget()
}

// setIndex makes entry ci the oldest one.
func (c *cq) setIndex(ci uint32) { spin.StoreRelease(&c.ci, ci) }
