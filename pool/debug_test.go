// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"purerdma/pool"
)

// methods lists all methods of a Buf.
var methods = map[string]func(*pool.Buf){
	"Bytes":  func(b *pool.Buf) { b.Bytes() },
	"Len":    func(b *pool.Buf) { b.Len() },
	"Pool":   func(b *pool.Buf) { b.Pool() },
	"SGE":    func(b *pool.Buf) { b.SGE() },
	"Slice":  func(b *pool.Buf) { b.Slice(0, 1) },
	"Remote": func(b *pool.Buf) { b.Remote() },
	"Ref":    func(b *pool.Buf) { b.Ref() },
	"Free":   func(b *pool.Buf) { b.Free() },
}

// freeHere and useHere have names for stacks.
func freeHere(b *pool.Buf) { b.Free() }

func useHere(b *pool.Buf, f func(*pool.Buf)) { f(b) }

// has checks that a text contains all parts.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("text = %q, want it to contain %q", text, part)
		}
	}
}

func TestUseAfterFree(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, small, debug)
		b := get(t, p, 100)
		b.Ref()
		b.Free()
		copy(b.Bytes(), "one reference is left")
		freeHere(b)
		for round := range 2 {
			for name, f := range methods {
				text := panics(t, func() { useHere(b, f) })
				has(t, text, name+" of a freed Buf")
				if debug {
					has(t, text, "freed by:", "freeHere", "used by:", "useHere")
				}
			}
			if !debug {
				break // the Buf may be reused
			}
			if round == 0 {
				defer get(t, p, 100).Free() // has the same memory
			}
		}
		if s := p.Stats(); s.InUse > 128 {
			t.Errorf("Stats() after a surplus Free = %+v, want at most 128 bytes in use", s)
		}
	})
}

// TestWriteAfterFree writes to memory of another Buf, as a device would do.
func TestWriteAfterFree(t *testing.T) {
	_, pd := newPD(t)
	for _, n := range []int{1, 64, 5000, 16 << 10, 20 << 10} {
		p := newPool(t, pd, small, true)
		b := get(t, p, n)
		mem := b.Bytes()
		for i, c := range mem {
			if c != 0xdb {
				t.Fatalf("byte %d of new memory = %#x, want 0xdb", i, c)
			}
		}
		clear(mem)
		freeHere(b)
		for i, c := range mem {
			if c != 0xdb {
				t.Fatalf("byte %d of freed memory = %#x, want 0xdb", i, c)
			}
		}
		mem[n-1] = 1
		text := panics(t, func() { get(t, p, n) })
		has(t, text, "was written after Free", "freed by:", "freeHere", "got by:")
	}
}

// TestWriteAfterFreeOfAnotherSize merges the memory with other free memory.
func TestWriteAfterFreeOfAnotherSize(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, small, true)
	a, b := get(t, p, 4096), get(t, p, 1000)
	mem := b.Bytes()
	a.Free()
	freeHere(b)
	mem[999]++
	has(t, panics(t, func() { get(t, p, 16<<10) }), "was written after Free", "freeHere")
}

func TestWriteBehindTheEnd(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, small, true)
	whole := get(t, p, 128)
	mem := whole.Bytes()
	whole.Free()
	b := get(t, p, 100)
	mem[100] = 0
	has(t, panics(t, func() { freeHere(b) }), "byte 0 behind a Buf of 100", "got by:", "TestWriteBehindTheEnd", "freeHere")
}

// TestCloseReportsBufsInUse names the Get of each Buf in use.
func TestCloseReportsBufsInUse(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, small, true)
	a, b := get(t, p, 100), get(t, p, 200)
	err := p.Close()
	if err == nil {
		t.Fatal("Close() with two Bufs in use = nil, want an error")
	}
	has(t, err.Error(), "close pool on rxe0", "2 Bufs are in use", "100 bytes, got by:", "200 bytes, got by:", "TestCloseReportsBufsInUse")
	a.Free()
	b.Free()
}

// TestEnvironment turns debug mode on in another process.
func TestEnvironment(t *testing.T) {
	const child = "POOL_TEST_CHILD"
	if os.Getenv(child) == "1" {
		_, pd := newPD(t)
		p, err := pool.New(pd, small)
		if err != nil {
			t.Fatalf("pool.New: %v", err)
		}
		closer(t, p)
		b := get(t, p, 1)
		defer b.Free()
		if on := b.Bytes()[0] == 0xdb; on != (os.Getenv("PURERDMA_POOL_DEBUG") == "1") {
			t.Errorf("debug mode = %v, want %v", on, !on)
		}
		return
	}
	for _, value := range []string{"1", "0", ""} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$")
		cmd.Env = append(os.Environ(), child+"=1", "PURERDMA_POOL_DEBUG="+value)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("test with PURERDMA_POOL_DEBUG=%q: %v\n%s", value, err, out)
		}
	}
}
