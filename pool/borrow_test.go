// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"purerdma/cm/cmtest"
	"purerdma/pool"
	"purerdma/verbs"
)

// global is memory that is not in the Go heap.
var global [1 << 20]byte

// aliases reports whether a Buf has the memory of b.
func aliases(buf *pool.Buf, b []byte) bool { return &buf.Bytes()[0] == &b[0] }

// borrow returns a Buf and checks its bytes.
func borrow(t *testing.T, p *pool.Pool, b []byte) *pool.Buf {
	t.Helper()
	buf, err := p.Borrow(deadline(t), b)
	if err != nil {
		t.Fatalf("p.Borrow: %v", err)
	}
	if !bytes.Equal(buf.Bytes(), b) || buf.Len() != len(b) || int(buf.SGE().Length) != len(b) {
		t.Errorf("Borrow() = %d bytes with the SGE %+v, want the %d bytes of its argument", buf.Len(), buf.SGE(), len(b))
	}
	if got := buf.SGE().Addr; got != uint64(uintptr(unsafe.Pointer(&buf.Bytes()[0]))) {
		t.Errorf("SGE().Addr = %#x, want the address of Bytes()", got)
	}
	return buf
}

// borrowing has room for four slabs or 1 MiB of borrowed memory.
var borrowing = pool.Config{SlabSize: 256 << 10, MaxBytes: 1 << 20}

func TestCopy(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, borrowing, debug)
		msg := []byte("hello")
		buf, err := p.Copy(deadline(t), msg)
		if err != nil {
			t.Fatalf("p.Copy: %v", err)
		}
		defer buf.Free()
		clear(msg)
		if string(buf.Bytes()) != "hello" {
			t.Errorf("Bytes() after a change of the source = %q, want %q", buf.Bytes(), "hello")
		}
		if _, err := p.Copy(t.Context(), nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Copy of no bytes = %v, want EINVAL", err)
		}
		if _, err := p.Borrow(t.Context(), nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Borrow of no bytes = %v, want EINVAL", err)
		}
	})
}

// TestBorrow registers large memory of the Go heap once, and copies other memory.
func TestBorrow(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		k, pd := newPD(t)
		var registered, count atomic.Int64
		k.OnCommand(func(c cmtest.Command) error {
			switch c.Name {
			case register:
				registered.Add(1)
				count.Add(1)
			case deregister:
				registered.Add(-1)
			}
			return nil
		})
		p := newPool(t, pd, borrowing, debug)
		b := make([]byte, 600<<10)
		for i := range b {
			b[i] = byte(i)
		}
		first := borrow(t, p, b)
		second := borrow(t, p, b[1000:300<<10]) // a piece of the same memory
		if !aliases(first, b) || !aliases(second, b[1000:]) {
			t.Error("Borrow has copied large memory of the Go heap")
		}
		if s := p.Stats(); s.Registered != len(b) || s.InUse != len(b) {
			t.Errorf("Stats() = %+v, want %d bytes", s, len(b))
		}
		panics(t, func() { first.Remote() })
		first.Free()
		if string(second.Bytes()[:10]) != string(b[1000:1010]) {
			t.Error("the bytes have changed")
		}
		second.Free()
		panics(t, func() { second.Bytes() })
		if s := p.Stats(); s.Registered != len(b) || s.InUse != 0 {
			t.Errorf("Stats() = %+v, want %d bytes registered and none in use", s, len(b))
		}
		borrow(t, p, b).Free()
		if n := count.Load(); n != 1 {
			t.Errorf("registrations of the same memory = %d, want 1", n)
		}
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("byte %d of the program's memory has changed", i)
			}
		}

		mapped, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatalf("unix.Mmap: %v", err)
		}
		defer unix.Munmap(mapped)
		for name, mem := range map[string][]byte{"small": b[:256<<10-1], "mapped": mapped[:300<<10], "a global variable": global[:300<<10]} {
			if buf := borrow(t, p, mem); aliases(buf, mem) && name != "small" {
				t.Errorf("Borrow() of %s memory returned the memory itself, want a copy", name)
			} else {
				buf.Free()
			}
		}
		// A Get evicts unused registrations.
		get(t, p, 1<<20).Free()
		if n := registered.Load(); n != 1 {
			t.Errorf("%d registrations, want the one of the large Buf", n)
		}
	})
}

// TestBorrowWithoutRoom copies if the bytes of the registration are not free.
func TestBorrowWithoutRoom(t *testing.T) {
	k, pd := newPD(t)
	p := newPool(t, pd, borrowing, false)
	b := make([]byte, 512<<10)
	held := get(t, p, 700<<10)
	if _, err := p.Borrow(canceled(), b); err == nil {
		t.Error("Borrow without room succeeds")
	}
	if _, err := p.Borrow(canceled(), make([]byte, 2<<20)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Borrow of more than MaxBytes = %v, want EINVAL", err)
	}
	held.Free()
	used := borrow(t, p, b)
	// Memory in use is not evicted, and a waiting Get gets its bytes when it is freed. Other users of
	// the memory cannot delay it.
	wait := getLater(t, deadline(t), p, 1<<20, 1)
	if _, err := p.Borrow(canceled(), b); !errors.Is(err, context.Canceled) {
		t.Errorf("Borrow with a waiting Get = %v, want that it waits", err)
	}
	used.Free()
	if r := <-wait; r.err != nil {
		t.Fatalf("p.Get: %v", r.err)
	} else {
		r.b.Free()
	}
	// If the kernel refuses to register the memory, it is copied.
	get(t, p, 512<<10).Free()
	refused := false
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == register && !refused {
			refused = true
			return syscall.EFAULT
		}
		return nil
	})
	if buf := borrow(t, p, b); aliases(buf, b) || !refused {
		t.Error("Borrow has not copied memory that cannot be registered")
	} else {
		buf.Free()
	}
}

// TestBorrowAndClose closes the pool with borrowed memory in use.
func TestBorrowAndClose(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, borrowing, false)
	b := make([]byte, 300<<10)
	used := borrow(t, p, b)
	borrow(t, p, make([]byte, 300<<10)).Free()
	if err := p.Close(); err != nil {
		t.Fatalf("p.Close: %v", err)
	}
	if s := p.Stats(); s.Registered != len(b) {
		t.Errorf("Stats() = %+v, want the memory in use", s)
	}
	if _, err := p.Borrow(t.Context(), b); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Borrow of a closed pool = %v, want ErrClosed", err)
	}
	used.Free()
	if err := p.Close(); err != nil { // waits for the deregistration
		t.Errorf("p.Close: %v", err)
	}
	if s := use(p); s != (pool.Stats{}) {
		t.Errorf("Stats() = %+v, want nothing", s)
	}
}

// TestBorrowedMemoryIsKept drops the memory that the pool has registered. Later objects must not get
// its address before the registration ends.
func TestBorrowedMemoryIsKept(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, borrowing, false)
	const n = 300 << 10
	var addrs [2]uint64
	for i := range addrs {
		buf := borrow(t, p, make([]byte, n))
		addrs[i] = buf.SGE().Addr
		buf.Free()
	}
	for range 20 {
		runtime.GC()
		b := make([]byte, n)
		for _, a := range addrs {
			if uint64(uintptr(unsafe.Pointer(&b[0]))) == a {
				t.Fatal("the garbage collector has freed registered memory")
			}
		}
	}
}

// TestBorrowAtOnce has goroutines borrow the same and other memory, while others get Bufs, so that
// registrations begin and end all the time.
func TestBorrowAtOnce(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, borrowing, debug)
		var shared [3][]byte
		for i := range shared {
			shared[i] = bytes.Repeat([]byte{byte(i + 1)}, 256<<10+i*1000)
		}
		ctx := t.Context()
		var wg sync.WaitGroup
		for user := range 6 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(11, uint64(user)))
				for range 100 {
					if user%2 == 0 {
						i := r.IntN(len(shared))
						buf, err := p.Borrow(ctx, shared[i])
						if err != nil {
							t.Errorf("p.Borrow: %v", err)
							return
						}
						if bytes.Count(buf.Bytes(), []byte{byte(i + 1)}) != len(shared[i]) {
							t.Errorf("the bytes of borrowed memory %d have changed", i)
						}
						buf.Free()
						continue
					}
					buf, err := p.Get(ctx, randomSize(r, 1<<20))
					if err != nil {
						t.Errorf("p.Get: %v", err)
						return
					}
					clear(buf.Bytes())
					buf.Free()
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.InUse != 0 || s.Registered > 1<<20 {
			t.Errorf("Stats() = %+v, want nothing in use and at most 1 MiB registered", s)
		}
	})
}

// TestBorrowMore borrows more of an object than is registered.
func TestBorrowMore(t *testing.T) {
	_, pd := newPD(t)
	cfg := borrowing
	cfg.Access = verbs.LocalWrite | verbs.RemoteRead
	p := newPool(t, pd, cfg, false)
	b := make([]byte, 600<<10)
	for _, piece := range [][]byte{b[:300<<10], b[100<<10 : 400<<10], b} {
		buf := borrow(t, p, piece)
		if !aliases(buf, piece) {
			t.Errorf("Borrow() of %d bytes returned a copy, want the memory itself", len(piece))
		}
		panics(t, func() { buf.Remote() }) // although the pool has remote rights
		buf.Free()
	}
}

// TestBorrowEvicts registers memory in the place of slabs whose Bufs were freed.
func TestBorrowEvicts(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, borrowing, false)
	var bufs [4]*pool.Buf
	for i := range bufs {
		bufs[i] = get(t, p, 200<<10)
	}
	for _, b := range bufs {
		b.Free()
	}
	b := make([]byte, 700<<10)
	if buf := borrow(t, p, b); !aliases(buf, b) {
		t.Error("Borrow has copied although all slabs are unused")
	} else {
		buf.Free()
	}
}
