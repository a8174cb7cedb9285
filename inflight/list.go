// SPDX-License-Identifier: Apache-2.0

package inflight

// list is a first-in first-out list. Its links are fields of the elements, so it allocates
// nothing.
type list[T any] struct{ first, last *link[T] }

// link is the place of an element in a list.
type link[T any] struct {
	of         *T // the element, always set
	prev, next *link[T]
	in         bool // in a list
}

// front returns the first element, nil if there is none.
func (l *list[T]) front() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

func (l *list[T]) push(n *link[T]) {
	n.in, n.prev, n.next = true, l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// pushFront puts back an element that was removed from the front.
func (l *list[T]) pushFront(n *link[T]) {
	n.in, n.prev, n.next = true, nil, l.first
	if l.first == nil {
		l.last = n
	} else {
		l.first.prev = n
	}
	l.first = n
}

func (l *list[T]) remove(n *link[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in, n.prev, n.next = false, nil, nil
}

// pop removes the first element and returns it, nil if there is none.
func (l *list[T]) pop() *T {
	n := l.first
	if n == nil {
		return nil
	}
	l.remove(n)
	return n.of
}
