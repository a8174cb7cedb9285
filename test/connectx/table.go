// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// table contains the objects of one kind by their numbers. Numbers are assigned in turn, so
// that the number of a destroyed object is not reused soon.
type table[T any] struct {
	kind       string
	first, end uint32
	last       uint32 // last assigned number
	objects    map[uint32]T
}

func newTable[T any](kind string, first, end uint32) table[T] {
	return table[T]{kind: kind, first: first, end: end, last: first - 1, objects: make(map[uint32]T)}
}

// add assigns a number to an object.
func (t *table[T]) add(o T) (uint32, error) {
	if len(t.objects) >= int(t.end-t.first) {
		return 0, refuse(prm.StatusNoResources, "all numbers of %ss are in use", t.kind)
	}
	for {
		if t.last++; t.last >= t.end {
			t.last = t.first
		}
		if _, used := t.objects[t.last]; !used {
			t.objects[t.last] = o
			return t.last, nil
		}
	}
}

// find returns the object with a number from a command.
func (t *table[T]) find(n uint32) (T, error) {
	o, ok := t.objects[n]
	if !ok {
		return o, refuse(prm.StatusBadResource, "there is no %s %#x", t.kind, n)
	}
	return o, nil
}

// remove removes the object with a number from a command, unless it is in use.
func (t *table[T]) remove(n uint32) (T, error) {
	o, err := t.find(n)
	if err != nil {
		return o, err
	}
	if u, ok := any(o).(interface {
		busy(kind string, n uint32) error
	}); ok {
		err = u.busy(t.kind, n)
	}
	if err == nil {
		delete(t.objects, n)
	}
	return o, err
}

// users counts the references to an object, which prevent its destruction.
type users int

// busy rejects the destruction of an object that is in use.
func (u users) busy(kind string, n uint32) error {
	if u > 0 {
		return refuse(prm.StatusResourceBusy, "%s %#x has %d users", kind, n, int(u))
	}
	return nil
}
