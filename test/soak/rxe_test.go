// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/verbs"
)

// What the traffic does otherwise on rxe is to spare it what it is known to do wrong
// (docs/reference/driver-faults.md).

// spareFence takes the fence from a request that rxe could not send again, and counts
// those that keep theirs. A fence has rxe wait until no READ or atomic is under way.
// When it sends anew from the oldest request on, those behind the fence, and what the
// fence itself is on, are under way as well, and wait for it.
func (e *end) spareFence(wr *verbs.SendWR, done func()) func() {
	switch wr.Opcode {
	case verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap:
		wr.Flags &^= verbs.SendFence
	}
	if e.reads == 0 || e.fences > 0 { // else there would hardly be a time without one
		wr.Flags &^= verbs.SendFence
	}
	if wr.Flags&verbs.SendFence == 0 {
		return done
	}
	e.fences++
	return func() {
		e.fences--
		done()
	}
}

// unstored is what stands where an atomic will store its result. rxe may complete an
// atomic with success and store nothing, when it has sent again a SEND or WRITE before it.
const unstored = "unstored"

// repeated reports whether the rxe devices have received any packet again.
func repeated() bool {
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/1/hw_counters/duplicate_request")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.TrimSpace(string(b)) != "0" {
			return true
		}
	}
	return false
}

// bind issues the binding of a window: on rxe when nothing is under way, because that
// binds the window once more if it sends anew what was before.
func (e *end) bind(issue func()) {
	if !e.node.caps.rxe || len(e.out) == 0 {
		issue()
		return
	}
	e.alone = append(e.alone, issue)
}

// TestSpare: what rxe could not send again is not issued.
func TestSpare(t *testing.T) {
	e := &end{node: &node{caps: caps{rxe: true}}, out: map[uint64]request{}}
	fenced := func(op verbs.SendOpcode) bool {
		e.issue(verbs.SendWR{Opcode: op, Flags: verbs.SendFence}, func() {})
		return e.queue[len(e.queue)-1].Flags&verbs.SendFence != 0
	}
	if fenced(verbs.OpWrite) || fenced(verbs.OpRead) || fenced(verbs.OpFetchAdd) {
		t.Error("a fence before which is no READ, or on a READ or an atomic")
	}
	if !e.mayRead() || !fenced(verbs.OpWrite) || e.mayRead() || fenced(verbs.OpSend) {
		t.Error("there is to be a fence behind a READ, and neither a READ nor another fence behind that")
	}
	bound := false
	e.bind(func() { bound = true })
	if bound || len(e.alone) != 1 {
		t.Error("a window is bound while requests are under way")
	}
	for id, r := range e.out {
		delete(e.out, id)
		r.done()
	}
	if e.bind(func() { bound = true }); !e.mayRead() || !bound {
		t.Error("what is done is still waited for")
	}
}
