// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"slices"
	"sync"
)

// objects maps the user handles in the kernel's events to the CQs, QPs and SRQs of a device. C
// programs use addresses as handles. A number that is never reused also identifies late events,
// which name a closed object.
type objects struct {
	mu     sync.Mutex
	last   uint64
	all    map[uint64]any
	making []uint64  // objects whose creation has not returned, few at a time
	change sync.Cond // broadcast when making shrinks
}

// add assigns an object its handle, before the kernel creates it. made or remove follows.
func (o *objects) add(object any) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[uint64]any)
		o.change.L = &o.mu
	}
	o.last++
	o.all[o.last] = object
	o.making = append(o.making, o.last)
	return o.last
}

// made marks the object as complete, so that others may use it.
func (o *objects) made(handle uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgetMaking(handle)
}

// forgetMaking ends the creation of an object. The caller holds o.mu.
func (o *objects) forgetMaking(handle uint64) {
	if i := slices.Index(o.making, handle); i >= 0 {
		o.making = slices.Delete(o.making, i, i+1)
		o.change.Broadcast()
	}
}

func (o *objects) remove(handle uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, handle)
	o.forgetMaking(handle)
}

// find returns the object, nil if it has been closed.
func (o *objects) find(handle uint64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[handle]
}

// cqsOf returns the CQs of a channel.
func (o *objects) cqsOf(ch *CompChannel) []*CQ {
	o.mu.Lock()
	defer o.mu.Unlock()
	var cqs []*CQ
	for _, object := range o.all {
		if cq, ok := object.(*CQ); ok && cq.ch == ch {
			cqs = append(cqs, cq)
		}
	}
	return cqs
}

// complete returns the objects whose creation has returned.
func (o *objects) complete() []any {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]any, 0, len(o.all))
	for handle, object := range o.all {
		if !slices.Contains(o.making, handle) {
			all = append(all, object)
		}
	}
	return all
}

// findMade is find of an object that others may use. The kernel's first event of an object may come
// before its creation has returned. Then findMade waits for that.
func (o *objects) findMade(handle uint64) any {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if !slices.Contains(o.making, handle) {
			return o.all[handle]
		}
		o.change.Wait()
	}
}
