// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"slices"
	"sync"
)

// regions lists the buffers that own mapped memory. Parts of such memory may be registered again,
// with another PD or device. The memory is unmapped with the last registration.
var regions regionList

type regionList struct {
	mu   sync.Mutex
	list []*buffer // by address
}

// find returns the index of the first buffer that ends behind addr.
func (l *regionList) find(addr uint64) int {
	i, _ := slices.BinarySearchFunc(l.list, addr, func(b *buffer, addr uint64) int {
		return cmp.Compare(b.addr()+uint64(len(b.bytes)), addr+1)
	})
	return i
}

// add lists a new region with its first user.
func (l *regionList) add(b *buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.users = 1
	l.list = slices.Insert(l.list, l.find(b.addr()), b)
}

// hold adds a user to the region that has the byte at addr, and returns its buffer, nil
// if there is none.
func (l *regionList) hold(addr uint64) *buffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.find(addr)
	if i == len(l.list) || l.list[i].addr() > addr {
		return nil
	}
	l.list[i].users++
	return l.list[i]
}

// drop removes a user and reports whether it was the last. If so, it removes the region from the
// list.
func (l *regionList) drop(b *buffer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.users--; b.users > 0 {
		return false
	}
	i := l.find(b.addr())
	l.list = slices.Delete(l.list, i, i+1)
	return true
}
