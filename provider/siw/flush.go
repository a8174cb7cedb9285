// SPDX-License-Identifier: Apache-2.0

package siw

import "purerdma/provider"

// In the error state the kernel flushes the requests that it finds, once. It ignores requests that
// are posted later. It also ignores requests that were posted after it had moved the QP, but before
// the program got the event. The provider completes these requests itself.

// When the kernel flushes, it clears VALID of each slot twice, with the completion, and when it
// advances to the next slot (siw_sq_flush, siw_rq_flush). A request that is posted in between is
// lost. The kernel flushes when a connection ends, before the program gets the event. Therefore one
// slot of the queues of a QP stays empty. It is filled after the kernel has also returned the slot
// behind it.
const spareSlots = 1

// maxRequests is the size of siw's largest queues, SIW_MAX_QP_WR. If a program requests that many,
// there is no slot to spare.
const maxRequests = 1 << 15

// withSpare returns the number of slots for n requests.
func withSpare(n int) uint32 {
	if n <= 0 || n >= maxRequests {
		return uint32(n)
	}
	return uint32(n + spareSlots)
}

// spare returns how many of the slots stay empty in a queue for n requests.
func spare(slots, n int) uint32 {
	if slots > n {
		return spareSlots
	}
	return 0
}

// softCompletions is a list of completions that are not in the slots of a CQ, whose lock guards it.
// They are the provider's flushed completions, and the completions that purge has kept. A flushed
// completion comes after all completions that the kernel had put into the CQ before it. So the
// completions of a QP keep their order.
type softCompletions struct {
	list []completion
	head int // the first that is not taken
}

type completion struct {
	after uint32 // how many of the kernel's completions are taken before it
	wc    provider.WC
}

// waiting returns the completions that are not taken, oldest first.
func (a *softCompletions) waiting() []completion { return a.list[a.head:] }

// add appends a completion. The list reuses the room of taken completions, so that it stays small
// even if it is never empty. Its capacity is at most four times the largest number of waiting
// completions.
func (a *softCompletions) add(c completion) {
	if len(a.list) == cap(a.list) && a.head >= len(a.list)/2 {
		a.list = a.list[:copy(a.list, a.waiting())]
		a.head = 0
	}
	a.list = append(a.list, c)
}

// due reports whether the first is next, after taken completions of the kernel.
func (a *softCompletions) due(taken uint32) bool {
	return a.head < len(a.list) && int32(taken-a.list[a.head].after) >= 0
}

// take removes the first.
func (a *softCompletions) take() provider.WC {
	wc := a.list[a.head].wc
	if a.head++; a.head == len(a.list) {
		a.list, a.head = a.list[:0], 0
	}
	return wc
}

// flush completes requests as flushed, in order. With force it always does so. Otherwise it returns
// provider.ErrFull if the list holds more unread completions than fit into the CQ. The caller wakes
// the waiters.
func (c *cq) flush(wcs []provider.WC, force bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := len(c.soft.waiting()); !force && waiting > 0 && waiting+len(wcs) > c.slots.Len() {
		return provider.ErrFull
	}
	after := c.get
	for range c.slots.Len() {
		if valid, _, _ := cqeWord(c.slots.LoadWord(after)); !valid {
			break
		}
		after++
	}
	for _, wc := range wcs {
		c.soft.add(completion{after: after, wc: wc})
	}
	return nil
}

// notify wakes the waiters, because the kernel has no event for these completions.
func (c *cq) notify() {
	if c.wake != nil {
		c.wake()
	}
}
