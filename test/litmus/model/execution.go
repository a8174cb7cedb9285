// SPDX-License-Identifier: Apache-2.0

// Package model enumerates the executions of small concurrent programs that the memory models
// of amd64 and arm64 allow.
//
// An execution is a choice of the store that each load reads from, and an order of the stores to
// each location. It is allowed if certain relations have no cycle. These relations are from the
// axiomatic models of x86-TSO and of Armv8 (chapter B2 of the architecture manual). No
// dependency but [If] orders accesses.
package model

import "slices"

// Kind is the kind of an operation.
type Kind uint8

// The kinds of operations.
const (
	Load Kind = iota
	Store
	Swap // loads and stores as one operation
	Fence
	If // later stores of the thread depend on the load of Reg
)

// Op is an operation of a thread.
type Op struct {
	Kind  Kind
	Loc   string // of a Load, Store or Swap
	Value int    // that a Store or Swap stores
	Reg   string // that a Load or Swap sets

	Acquire bool // of a Load or Swap, on arm64: LDAR
	Release bool // of a Store or Swap, on arm64: STLR
	// Combining marks a store to memory that may combine writes, such as a register of a device.
	// Only SFENCE on amd64 and DSB on arm64 order it with other stores.
	Combining bool
	Fence     FenceKind
}

// FenceKind is the kind of a fence.
type FenceKind uint8

// The fences. A store fence orders earlier stores with later stores, and a load fence earlier loads
// with all later accesses.
const (
	MFENCE FenceKind = iota
	SFENCE
	DMBISH
	DMBISHST
	DMBISHLD
	DMBOSHST
	DSBST
)

// A Thread is a sequence of operations.
type Thread struct {
	Ops []Op
	// Device marks a device, whose accesses are all in order. The fences of other threads order
	// nothing for it if their domain is the inner shareable one.
	Device bool
}

// Arch is an architecture.
type Arch uint8

// The architectures.
const (
	AMD64 Arch = iota
	ARM64
)

// An Outcome has the registers by their names, and the final memory by its locations in
// brackets, such as "[x]".
type Outcome map[string]int

// event is a load or a store. A Swap has one of each.
type event struct {
	thread, op int // thread is -1 for the initial stores
	write      bool
	loc        string
	value      int // of a store
	partner    int // the other event of a Swap, or -1
}

type execution struct {
	arch    Arch
	threads []Thread
	device  bool // one of the threads is a device.
	events  []event
	writes  map[string][]int // events of the stores to each location, the initial one first.
	loads   []int            // events.
	sameLoc [][]int          // the other events of each event's location.
	ppo     graph            // the events of a thread that stay in order.
	poLoc   graph            // the order of a thread's events of one location.
	from    []int            // the store that each load reads from.
	place   []int            // the place of each store in the order of its location.

	coherent, global graph // used by allowed.
}

// Outcomes calls yield with the outcome of each allowed execution, until it returns false. All
// memory is 0 at first.
func Outcomes(arch Arch, threads []Thread, yield func(Outcome) bool) {
	x := &execution{arch: arch, threads: threads, writes: map[string][]int{}}
	for t, thread := range threads {
		x.device = x.device || thread.Device
		for o, op := range thread.Ops {
			first := len(x.events)
			switch op.Kind {
			case Load:
				x.add(event{t, o, false, op.Loc, 0, -1})
			case Store:
				x.add(event{t, o, true, op.Loc, op.Value, -1})
			case Swap:
				x.add(event{t, o, false, op.Loc, 0, first + 1})
				x.add(event{t, o, true, op.Loc, op.Value, first})
			}
		}
	}
	for _, e := range slices.Clone(x.events) {
		if len(x.writes[e.loc]) == 0 || x.events[x.writes[e.loc][0]].thread >= 0 {
			x.writes[e.loc] = append([]int{len(x.events)}, x.writes[e.loc]...)
			x.events = append(x.events, event{-1, -1, true, e.loc, 0, -1})
		}
	}
	x.prepare()
	x.readsFrom(0, yield)
}

func (x *execution) add(e event) {
	i := len(x.events)
	x.events = append(x.events, e)
	if e.write {
		x.writes[e.loc] = append(x.writes[e.loc], i)
	} else {
		x.loads = append(x.loads, i)
	}
}

// prepare computes the relations that do not depend on the execution.
func (x *execution) prepare() {
	n := len(x.events)
	if n > 64 {
		panic("model: more than 64 events")
	}
	x.from, x.place, x.sameLoc = make([]int, n), make([]int, n), make([][]int, n)
	x.ppo, x.poLoc, x.coherent, x.global = make(graph, n), make(graph, n), make(graph, n), make(graph, n)
	ordered := x.orderedARM64
	if x.arch == AMD64 {
		ordered = x.orderedAMD64
	}
	for i, a := range x.events {
		for j, b := range x.events {
			if i != j && a.loc == b.loc {
				x.sameLoc[i] = append(x.sameLoc[i], j)
			}
			if a.thread < 0 || a.thread != b.thread || j <= i {
				continue
			}
			if a.loc == b.loc {
				x.poLoc.add(i, j)
			}
			if x.threads[a.thread].Device || a.partner == j || ordered(a, b) {
				x.ppo.add(i, j)
			}
		}
	}
}

// readsFrom chooses the stores that the loads from number i on read from.
func (x *execution) readsFrom(i int, yield func(Outcome) bool) bool {
	if i == len(x.loads) {
		locs := make([]string, 0, len(x.writes))
		for loc := range x.writes {
			locs = append(locs, loc)
		}
		slices.Sort(locs)
		return x.coherence(locs, yield)
	}
	load := x.loads[i]
	for _, w := range x.writes[x.events[load].loc] {
		if w == x.events[load].partner {
			continue
		}
		x.from[load] = w
		if !x.readsFrom(i+1, yield) {
			return false
		}
	}
	return true
}

// coherence chooses the orders of the stores to the locations.
func (x *execution) coherence(locs []string, yield func(Outcome) bool) bool {
	if len(locs) == 0 {
		return !x.allowed() || yield(x.outcome())
	}
	writes := x.writes[locs[0]]
	x.place[writes[0]] = 0
	rest := writes[1:]
	return permute(len(rest), func(order []int) bool {
		for i, at := range order {
			x.place[rest[i]] = at + 1
		}
		return x.coherence(locs[1:], yield)
	})
}

// permute calls yield with each permutation of the numbers below n.
func permute(n int, yield func([]int) bool) bool {
	order, used := make([]int, n), make([]bool, n)
	var choose func(int) bool
	choose = func(i int) bool {
		if i == n {
			return yield(order)
		}
		for v := range n {
			if used[v] {
				continue
			}
			used[v], order[i] = true, v
			ok := choose(i + 1)
			if used[v] = false; !ok {
				return false
			}
		}
		return true
	}
	return choose(0)
}

// communicates reports whether event j of the same location follows event i. It does if it reads the
// store i, if it stores after the store i, or if it overwrites the value that i has read.
func (x *execution) communicates(i, j int) bool {
	a, b := x.events[i], x.events[j]
	switch {
	case a.write && b.write:
		return x.place[i] < x.place[j]
	case a.write:
		return x.from[j] == i
	case b.write:
		return x.place[x.from[i]] < x.place[j]
	}
	return false
}

// allowed reports whether the memory model allows the execution.
func (x *execution) allowed() bool {
	for _, load := range x.loads { // a Swap is atomic
		if p := x.events[load].partner; p >= 0 && x.place[x.from[load]]+1 != x.place[p] {
			return false
		}
	}
	copy(x.coherent, x.poLoc)
	copy(x.global, x.ppo)
	for i, a := range x.events {
		for _, j := range x.sameLoc[i] {
			if x.communicates(i, j) {
				x.coherent.add(i, j)
				if a.thread != x.events[j].thread {
					x.global.add(i, j)
				}
			}
		}
	}
	return !x.coherent.cyclic() && !x.global.cyclic()
}

func (x *execution) outcome() Outcome {
	out := Outcome{}
	for _, load := range x.loads {
		out[x.opOf(x.events[load]).Reg] = x.events[x.from[load]].value
	}
	for loc, writes := range x.writes {
		for _, w := range writes {
			if x.place[w] == len(writes)-1 {
				out["["+loc+"]"] = x.events[w].value
			}
		}
	}
	return out
}
