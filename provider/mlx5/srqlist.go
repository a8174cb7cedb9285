// SPDX-License-Identifier: Apache-2.0

package mlx5

// srqList records which slots of a shared receive queue hold receives and in what order the device
// takes them. It is a linked list, whose links the device reads. Slots complete in any order. The
// list keeps its own copy of the links, and trusts only that.
//
// The slots are used in the order of their addresses, as long as the next one is free. Otherwise
// the next run of free ones is linked in (srq.c of libmlx5). Slots of the wait queue, the upper
// half of the memory, replace slots whose receive the device has returned because of a page fault.
type srqList struct {
	next []uint16 // links
	free []bool   // slot has completed, or was never used, and is not linked
	used []bool   // slot holds a receive that the device may take
	link func(i, next uint16)

	head, tail uint16 // the slot to be filled next, and the last linked slot
	slots      int    // that the list may use
	waitHead   uint16
	waitTail   uint16
	wait       bool // there is a wait queue
	nfree      int
}

// init makes the list of n slots, and of another n in the wait queue. It calls link for each change
// of a link.
func (l *srqList) init(n int, wait bool, link func(i, next uint16)) {
	total := n
	if wait {
		total *= 2
	}
	*l = srqList{
		next:  make([]uint16, total),
		free:  make([]bool, total),
		used:  make([]bool, total),
		link:  link,
		tail:  uint16(n - 1),
		slots: n,
		wait:  wait,
	}
	l.chain(0, n-1)
	if wait {
		l.waitHead, l.waitTail = uint16(n), uint16(total-1)
		l.chain(n, total-1)
	}
}

// chain links the slots from a to b in order.
func (l *srqList) chain(a, b int) {
	for i := a; i < b; i++ {
		l.set(uint16(i), uint16(i+1))
	}
}

func (l *srqList) set(i, next uint16) {
	l.next[i] = next
	l.link(i, next)
}

// take returns the slot for the next receive, and false if there is none. The last slot of the list
// is never filled, because the next one will be linked to it.
func (l *srqList) take() (uint16, bool) {
	if l.head == l.tail && !l.extend() {
		return 0, false
	}
	i := l.head
	l.head = l.next[i]
	l.used[i] = true
	return i, true
}

// done takes back slot i, whose receive has completed. It returns false if there
// was none.
func (l *srqList) done(i uint16) bool {
	if int(i) >= len(l.used) || !l.used[i] {
		return false
	}
	l.used[i] = false
	l.release(int(i), true)
	return true
}

func (l *srqList) release(i int, free bool) {
	if l.free[i] == free {
		return
	}
	l.free[i] = free
	if free {
		l.nfree++
	} else {
		l.nfree--
	}
}

// extend links free slots to the tail. It prefers the slot behind the tail, and takes the first run
// of free slots otherwise.
func (l *srqList) extend() bool {
	if l.nfree == 0 {
		return false
	}
	if n := (int(l.tail) + 1) % l.slots; l.free[n] {
		l.append(n)
		return true
	}
	first, n := l.run(int(l.head)+1, l.slots)
	if n == 0 {
		first, n = l.run(0, int(l.head))
	}
	if n == 0 {
		return false
	}
	l.append(first)
	for i := first + 1; i < first+n; i++ {
		l.append(i)
	}
	return true
}

// append links slot i to the tail.
func (l *srqList) append(i int) {
	l.set(l.tail, uint16(i))
	l.tail = uint16(i)
	l.release(i, false)
}

// run returns the first run of free slots in [from, to).
func (l *srqList) run(from, to int) (first, n int) {
	for i := from; i < to; i++ {
		switch {
		case l.free[i] && n == 0:
			first, n = i, 1
		case l.free[i]:
			n++
		case n > 0:
			return first, n
		}
	}
	return first, n
}

// fault removes slot i, whose receive the device could not fill because of a page fault, and
// returns the slot that replaces it. The receive's elements are copied to the new slot. Slot i goes
// to the end of the wait queue, because the device might still read it. It returns false if the
// slot had no receive.
func (l *srqList) fault(i uint16) (to uint16, ok bool) {
	if int(i) >= len(l.used) || !l.used[i] {
		return 0, false
	}
	for n := range l.slots {
		if l.free[n] {
			l.append(n)
		}
	}
	// From now on slots of the wait queue are in the list.
	l.slots = len(l.next)
	l.used[i] = false
	if l.wait {
		l.set(l.waitTail, i)
		l.waitTail = i
		w := l.waitHead
		l.waitHead = l.next[w]
		l.set(l.tail, w)
		l.tail = w
	} else {
		l.set(l.tail, i)
		l.tail = i
	}
	to = l.head
	l.head = l.next[to]
	l.used[to] = true
	return to, true
}
