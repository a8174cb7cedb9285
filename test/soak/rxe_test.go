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

// The restrictions of the traffic on rxe avoid its known faults
// (docs/reference/driver-faults.md).

// spareFence removes the fence from a request that rxe could not repeat, and counts the
// remaining fences. With a fence rxe waits until no READ or atomic is pending. When it repeats
// requests from the oldest one on, it also considers the fenced request and the requests after
// it as pending, and waits for them.
func (e *end) spareFence(wr *verbs.SendWR, done func()) func() {
	switch wr.Opcode {
	case verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap:
		wr.Flags &^= verbs.SendFence
	}
	if e.reads == 0 || e.fences > 0 { // otherwise there would almost always be a fence
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

// unwritten is the value in the memory for the result of an atomic. rxe may complete an atomic
// successfully without storing the result, after it has repeated a SEND or WRITE before it.
const unwritten = "unstored"

// repeated reports whether the rxe devices have received any repeated packet.
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

// bind issues the binding of a window. On rxe it waits until no request is pending, because rxe
// binds the window again when it repeats earlier requests.
func (e *end) bind(issue func()) {
	if !e.node.caps.rxe || len(e.out) == 0 {
		issue()
		return
	}
	e.alone = append(e.alone, issue)
}

// TestSpare checks that requests that rxe could not repeat are not issued.
func TestSpare(t *testing.T) {
	e := &end{node: &node{caps: caps{rxe: true}}, out: map[uint64]request{}}
	fenced := func(op verbs.SendOpcode) bool {
		e.issue(verbs.SendWR{Opcode: op, Flags: verbs.SendFence}, func() {})
		return e.queue[len(e.queue)-1].Flags&verbs.SendFence != 0
	}
	if fenced(verbs.OpWrite) || fenced(verbs.OpRead) || fenced(verbs.OpFetchAdd) {
		t.Error("spareFence kept a fence without a preceding READ, or on a READ or an atomic")
	}
	if !e.mayRead() || !fenced(verbs.OpWrite) || e.mayRead() || fenced(verbs.OpSend) {
		t.Error("want a fence after a READ, and neither a READ nor another fence after it")
	}
	bound := false
	e.bind(func() { bound = true })
	if bound || len(e.alone) != 1 {
		t.Error("a window was bound while requests are pending")
	}
	for id, r := range e.out {
		delete(e.out, id)
		r.done()
	}
	if e.bind(func() { bound = true }); !e.mayRead() || !bound {
		t.Error("a completed request is still considered pending")
	}
}
