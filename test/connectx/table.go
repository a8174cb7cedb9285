// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// table holds the objects of one kind by their numbers, which are handed out in
// turn so that a number that was destroyed is not soon that of another.
type table[T any] struct {
	kind       string
	first, end uint32
	last       uint32 // number that was handed out
	objects    map[uint32]T
}

func newTable[T any](kind string, first, end uint32) table[T] {
	return table[T]{kind: kind, first: first, end: end, last: first - 1, objects: make(map[uint32]T)}
}

// add gives an object a number.
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

// find returns the object of a number that a command names.
func (t *table[T]) find(n uint32) (T, error) {
	o, ok := t.objects[n]
	if !ok {
		return o, refuse(prm.StatusBadResource, "there is no %s %#x", t.kind, n)
	}
	return o, nil
}

// remove takes away the object of a number that a command names, unless others use it.
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

// users counts what refers to an object, which then cannot be destroyed.
type users int

// busy refuses to destroy an object that is in use.
func (u users) busy(kind string, n uint32) error {
	if u > 0 {
		return refuse(prm.StatusResourceBusy, "%s %#x has %d users", kind, n, int(u))
	}
	return nil
}
