// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"sync"

	"purerdma/internal/bridge"
)

// countedObjects has the objects of other packages that count for a Host, by kind.
type countedObjects struct {
	mu    sync.Mutex
	kinds map[string]*countedKind
}

type countedKind struct {
	open   map[*countedObject]struct{}
	closed bridge.Counts // of the closed objects, Counters only
}

type countedObject struct{ read func(*bridge.Counts) }

// countObject implements bridge.Counting.Host. done may be called more than once.
func (h *Host) countObject(kind string, read func(*bridge.Counts)) (done func()) {
	o := &countedObject{read}
	h.counted.mu.Lock()
	defer h.counted.mu.Unlock()
	k := h.counted.kinds[kind]
	if k == nil {
		if h.counted.kinds == nil {
			h.counted.kinds = make(map[string]*countedKind)
		}
		k = &countedKind{open: make(map[*countedObject]struct{})}
		h.counted.kinds[kind] = k
	}
	k.open[o] = struct{}{}
	return func() {
		h.counted.mu.Lock()
		defer h.counted.mu.Unlock()
		if _, ok := k.open[o]; !ok {
			return
		}
		delete(k.open, o)
		o.read(&k.closed)
		k.closed.Levels = nil
	}
}

// objectCounts implements bridge.Counting.Sums.
func (h *Host) objectCounts() map[string]*bridge.Counts {
	h.counted.mu.Lock()
	defer h.counted.mu.Unlock()
	sums := make(map[string]*bridge.Counts)
	for kind, k := range h.counted.kinds {
		s := &bridge.Counts{Open: len(k.open), Counters: maps.Clone(k.closed.Counters)}
		for o := range k.open {
			o.read(s)
		}
		sums[kind] = s
	}
	return sums
}

// countOf implements bridge.Counting.QP.
func (q *QP) countOf(kind string, read func(*bridge.Counts)) {
	q.watch(bridge.Watch{Closed: q.pd.dev.host.countObject(kind, read)})
}
