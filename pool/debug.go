// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"purerdma/verbs"
)

// debugMode reports whether the environment turns debug mode on.
var debugMode = sync.OnceValue(func() bool {
	v := os.Getenv("PURERDMA_POOL_DEBUG")
	return v != "" && v != "0"
})

// debugBuf is the state of a Buf in debug mode.
type debugBuf struct {
	got   *stack
	freed atomic.Pointer[stack]
}

// stack is the call stack of a Get or Free.
type stack struct {
	pcs [32]uintptr
	n   int
}

// callers returns the stack of the caller's callers, of which it skips some.
func callers(skip int) *stack {
	s := new(stack)
	s.n = runtime.Callers(skip+2, s.pcs[:])
	return s
}

// String returns one line for each function and one for its position.
func (s *stack) String() string {
	if s == nil {
		return "\tunknown\n"
	}
	var b strings.Builder
	frames := runtime.CallersFrames(s.pcs[:s.n])
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}

// poisonByte fills free memory in debug mode.
const poisonByte = 0xdb

// poisoned has the content of free memory, to be compared with pieces of it.
var poisoned = [4096]byte(bytes.Repeat([]byte{poisonByte}, 4096))

func poison(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, poisoned[:]):]
	}
}

// firstWritten returns the index of the first byte that is not poison, or -1.
func firstWritten(b []byte) int {
	for off := 0; off < len(b); off += len(poisoned) {
		piece := b[off:min(off+len(poisoned), len(b))]
		if !bytes.Equal(piece, poisoned[:len(piece)]) {
			return off + slices.IndexFunc(piece, func(c byte) bool { return c != poisonByte })
		}
	}
	return -1
}

// handOut prepares a Buf in debug mode. It panics if the memory was written while it was free.
func (p *Pool) handOut(b *Buf) {
	got := callers(2)
	if i := firstWritten(b.memory()); i >= 0 {
		text := b.written(i, got)
		poison(b.memory())
		b.refs.Store(0)
		p.release(b)
		panic(text)
	}
	b.debug = &debugBuf{got: got}
	p.mu.Lock()
	p.live[b] = struct{}{}
	p.mu.Unlock()
}

// written describes a write to byte i of the free memory of b.
func (b *Buf) written(i int, got *stack) string {
	where := fmt.Sprintf("pool: byte %d of the slab at %#x was written", b.at*unit+i, b.slab.mr.Addr())
	freed := b.slab.freed[b.unitOf(i)]
	if freed == nil {
		return fmt.Sprintf("%s before it was handed out for the first time\ngot by:\n%v", where, got)
	}
	return fmt.Sprintf("%s after Free, by the program or by a device\nfreed by:\n%vgot by:\n%v", where, freed, got)
}

// unitOf returns the unit of byte i of the block, as an index of slab.freed.
func (b *Buf) unitOf(i int) int {
	if len(b.slab.freed) == 1 {
		return 0
	}
	return b.at + i/unit
}

// retire poisons the memory of a Buf whose last reference was freed, and releases it. b
// itself is never used again. It panics if bytes behind the end of the Buf were written.
func (b *Buf) retire() {
	freed := callers(2)
	b.debug.freed.Store(freed)
	overrun := -1
	if m := b.memory(); m != nil {
		overrun = firstWritten(m[b.n:])
		poison(m)
		list := b.slab.freed[b.unitOf(0) : b.unitOf(len(m)-1)+1]
		for i := range list {
			list[i] = freed
		}
	}
	b.pool.mu.Lock()
	delete(b.pool.live, b)
	b.pool.mu.Unlock()
	b.pool.release(&Buf{class: b.class, at: b.at, slab: b.slab, pool: b.pool})
	if overrun >= 0 {
		panic(fmt.Sprintf("pool: byte %d behind a Buf of %d was written, by the program or by a device\ngot by:\n%vfreed by:\n%v",
			overrun, b.n, b.debug.got, freed))
	}
}

// panicFreed panics because of a method of a freed Buf. In debug mode it adds both stacks.
func (b *Buf) panicFreed(method string) {
	if b.debug == nil {
		panic("pool: " + method + " of a freed Buf (run with PURERDMA_POOL_DEBUG=1 for the stack of its Free)")
	}
	panic(fmt.Sprintf("pool: %s of a freed Buf\nfreed by:\n%vused by:\n%v", method, b.debug.freed.Load(), callers(1)))
}

// notFreed returns an error that lists the Bufs in use. The caller holds p.mu.
func (p *Pool) notFreed() error {
	if len(p.live) == 0 {
		return nil
	}
	list := slices.SortedFunc(maps.Keys(p.live), func(a, b *Buf) int {
		return cmp.Or(cmp.Compare(a.slab.mr.Addr(), b.slab.mr.Addr()), a.at-b.at)
	})
	var text strings.Builder
	fmt.Fprintf(&text, "%d Bufs are in use", len(list))
	for _, b := range list {
		fmt.Fprintf(&text, "\n%d bytes, got by:\n%v", b.n, b.debug.got)
	}
	return &verbs.OpError{Op: "close pool on", Object: p.pd.Device().Name(), Err: fmt.Errorf("%s", text.String())}
}

// Debug reports whether the pool checks for mistakes. The documentation of the package describes
// that mode.
func (p *Pool) Debug() bool { return p.debug }
