// SPDX-License-Identifier: Apache-2.0

package bridge

// Counts has the sums of the counters of a Host's objects of one kind.
type Counts struct {
	Open     int               // objects that have not been closed
	Counters map[string]uint64 // of all objects since the start of the process, including closed ones
	Levels   map[string]uint64 // of the open objects at this time
}

// Count adds to a counter.
func (c *Counts) Count(name string, n uint64) { add(&c.Counters, name, n) }

// Level adds to a level.
func (c *Counts) Level(name string, n uint64) { add(&c.Levels, name, n) }

func add(m *map[string]uint64, name string, n uint64) {
	if *m == nil {
		*m = make(map[string]uint64)
	}
	(*m)[name] += n
}

// Counting has the functions by which packages count their objects for a Host, for the types *Host, *QP and *PD of package
// verbs. kind names the kind of the objects. read adds the counters of an object. It may take the locks of the object, so these
// functions must be called without them.
type Counting[H, Q, P any] struct {
	// Host counts an object until done is called.
	Host func(h H, kind string, read func(*Counts)) (done func())
	// QP counts an object until the QP is closed. It must not be called by the create function of Verbs.Attach.
	QP func(q Q, kind string, read func(*Counts))
	// PD counts an object until done is called.
	PD func(pd P, kind string, read func(*Counts)) (done func())
	// Sums returns the sums by kind. The caller owns the maps.
	Sums func(h H) map[string]*Counts
}

// CountingFunctions is the *Counting of package verbs, which sets it when it is initialized.
var CountingFunctions any
