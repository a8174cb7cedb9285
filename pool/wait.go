// SPDX-License-Identifier: Apache-2.0

package pool

// waiter is a waiting Get. Pool.mu guards it. After the call was removed from the queue to be
// served, ready has one element, and one of buf, growth and err is set.
type waiter struct {
	n          int
	queued     bool
	prev, next *waiter

	ready  chan struct{}
	buf    *Buf
	growth growth
	err    error
}

// waitQueue is the queue of the waiting calls of Get, and a list of waiters to be reused.
type waitQueue struct {
	first, last *waiter
	n           int
	unused      *waiter
}

// push adds a call that waits for n bytes.
func (q *waitQueue) push(n int) *waiter {
	w := q.unused
	if w == nil {
		w = &waiter{ready: make(chan struct{}, 1)}
	} else {
		q.unused = w.next
	}
	w.n, w.queued, w.prev, w.next = n, true, q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.n++
	return w
}

// pop removes the first waiter, and returns nil if there is none.
func (q *waitQueue) pop() *waiter {
	w := q.first
	if w != nil {
		q.remove(w)
	}
	return w
}

// remove removes a waiter that is in the queue.
func (q *waitQueue) remove(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.n--
}

// recycle keeps a waiter, whose channel is empty, for another call.
func (q *waitQueue) recycle(w *waiter) {
	w.buf, w.growth, w.err = nil, growth{}, nil
	w.next = q.unused
	q.unused = w
}
