// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// objects are the CQs, QPs and SRQs of a device by the user handles that the
// kernel's events name them by. An address would do for C; a number that is never
// used again tells an event that comes too late.
type objects struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]any
}

// add gives an object its handle, before the kernel has it.
func (o *objects) add(object any) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[uint64]any)
	}
	o.last++
	o.all[o.last] = object
	return o.last
}

func (o *objects) remove(handle uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, handle)
}

// find returns the object, nil if it has been closed.
func (o *objects) find(handle uint64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[handle]
}
