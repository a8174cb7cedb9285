// SPDX-License-Identifier: Apache-2.0

// Package fifo is a first-in, first-out queue.
package fifo

import "slices"

// Queue is a first-in, first-out queue. It keeps its memory, so that Push allocates nothing in the steady
// state. The zero Queue is empty. Its methods must not be called concurrently.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// All returns the elements, the oldest first. The slice is valid until the next change of the Queue.
func (q *Queue[T]) All() []T { return q.items[q.head:] }

// Push adds an element.
func (q *Queue[T]) Push(x T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

// Front returns the oldest element. The Queue must not be empty.
func (q *Queue[T]) Front() *T { return &q.items[q.head] }

// Pop removes and returns the oldest element. The Queue must not be empty.
func (q *Queue[T]) Pop() T {
	var zero T
	x := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return x
}

// Remove removes the element All()[i].
func (q *Queue[T]) Remove(i int) { q.items = slices.Delete(q.items, q.head+i, q.head+i+1) }
