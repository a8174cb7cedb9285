// SPDX-License-Identifier: Apache-2.0

// Package leak records the stack that created each open object. Every file descriptor, mapping and
// kernel object of the library is tracked from its creation to its Close. Tests turn the tracer on
// and fail with the stack of each leaked object. It costs one atomic load per object while it is
// off.
package leak

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

var (
	enabled atomic.Bool
	mu      sync.Mutex
	live    = map[*Entry]struct{}{}
)

// Entry is one tracked object. The nil Entry, which Track returns while the
// tracer is off, is valid.
type Entry struct {
	kind string
	name string
	pcs  []uintptr
}

// Enable turns the tracer on for all objects created from now on.
func Enable() { enabled.Store(true) }

// Track records that an object was created by the caller's caller. It returns nil while the tracer
// is off.
func Track(kind, name string) *Entry {
	if !enabled.Load() {
		return nil
	}
	pcs := make([]uintptr, 24)
	e := &Entry{kind: kind, name: name, pcs: pcs[:runtime.Callers(3, pcs)]}
	mu.Lock()
	live[e] = struct{}{}
	mu.Unlock()
	return e
}

// TrackNamed is Track with a name that is formatted only if the tracer is on.
func TrackNamed(kind string, name fmt.Stringer) *Entry {
	if !enabled.Load() {
		return nil
	}
	return Track(kind, name.String())
}

// Done records that the object was closed. It may be called more than once.
func (e *Entry) Done() {
	if e == nil {
		return
	}
	mu.Lock()
	delete(live, e)
	mu.Unlock()
}

// Report describes every object that is still open, one string each, in a
// stable order. It is empty if nothing leaked.
func Report() []string {
	mu.Lock()
	defer mu.Unlock()
	var out []string
	for e := range live {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %s, created at:", e.kind, e.name)
		frames := runtime.CallersFrames(e.pcs)
		for {
			f, more := frames.Next()
			fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", f.Function, f.File, f.Line)
			if !more {
				break
			}
		}
		out = append(out, b.String())
	}
	sort.Strings(out)
	return out
}
