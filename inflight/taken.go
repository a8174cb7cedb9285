// SPDX-License-Identifier: Apache-2.0

package inflight

// takenOrder tracks which receives of an SRQ the QPs have taken. It is for SRQs that report it
// (provider.UnusedReporter). A QP of rxe that is closed in the middle of a message never completes
// the receive of that message, and does not return it to the SRQ. receives.mu guards it.
type takenOrder struct {
	unused func() int
	// of has the place of each receive in the order of the posts, by its number. next is the place of
	// the next post.
	of   []uint64
	next uint64
	// returned counts the receives that have completed or were reclaimed.
	returned uint64
}

// taken returns the place after the last receive that a QP has taken.
func (o *takenOrder) taken() uint64 {
	n := o.unused()
	return o.next - min(uint64(max(n, 0)), o.next-o.returned)
}

// reclaim takes back the receives that only closed QPs can have taken. It then makes room for as many
// further receives as QPs have taken and not returned, because some of these may also be lost. The
// caller holds the lock.
func (rq *receives) reclaim() {
	o := rq.order
	if o == nil || rq.stopped {
		return
	}
	taken := o.taken()
	if taken == o.returned {
		rq.extra = 0
		return
	}
	lost := taken
	for _, r := range rq.receivers {
		lost = min(lost, r.passed)
	}
	var back list[Message]
	for num, m := range rq.posted {
		if m != nil && o.of[num] < lost {
			rq.remove(uint32(num))
			back.push(&m.place)
		}
	}
	rq.extra = min(int(taken-o.returned), rq.depth)
	for m := back.pop(); m != nil; m = back.pop() {
		rq.recycle(m)
	}
	for len(rq.posted) < rq.depth+rq.extra {
		rq.free = append(rq.free, uint32(len(rq.posted)))
		rq.posted = append(rq.posted, nil)
		o.of = append(o.of, 0)
	}
}
