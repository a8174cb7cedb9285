// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// objects maps the user handles in the kernel's events to the CQs, QPs and SRQs of a device. C
// programs use addresses as handles. A number that is never reused also identifies late events,
// which name a closed object.
type objects struct {
	mu     sync.Mutex
	last   uint64
	all    map[uint64]entry
	change sync.Cond // broadcast when an object is made, or is gone
}

// entry is an object of a device.
type entry struct {
	object any
	made   bool // its creation has returned
}

// add assigns an object its handle, before the kernel creates it. made or remove follows.
func (o *objects) add(object any) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[uint64]entry)
		o.change.L = &o.mu
	}
	o.last++
	o.all[o.last] = entry{object: object}
	return o.last
}

// made marks the object as complete, so that others may use it.
func (o *objects) made(handle uint64, object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all[handle] = entry{object, true}
	o.change.Broadcast()
}

func (o *objects) remove(handle uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, handle)
	if o.change.L != nil {
		o.change.Broadcast()
	}
}

// find returns the object, nil if it has been closed.
func (o *objects) find(handle uint64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[handle].object
}

// cqsOf returns the CQs of a channel.
func (o *objects) cqsOf(ch *CompChannel) []*CQ {
	o.mu.Lock()
	defer o.mu.Unlock()
	var cqs []*CQ
	for _, e := range o.all {
		if cq, ok := e.object.(*CQ); ok && cq.ch == ch {
			cqs = append(cqs, cq)
		}
	}
	return cqs
}

// findMade is find of an object that others may use. The kernel's first event of an object may come
// before its creation has returned. Then findMade waits for that.
func (o *objects) findMade(handle uint64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if e := o.all[handle]; e.object == nil || e.made {
			return e.object
		}
		o.change.Wait()
	}
}
