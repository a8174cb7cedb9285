// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/cm/cmtest"
	"purerdma/pool"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

func TestBuf(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, pool.Config{Access: verbs.LocalWrite | verbs.RemoteRead}, debug)
		other := get(t, p, 100)
		defer other.Free()
		for _, n := range []int{1, 63, 64, 65, 1000, 4096, 100_000, pool.DefaultSlabSize, pool.DefaultSlabSize + 1, pool.DefaultMaxBytes - pool.DefaultSlabSize} {
			b := get(t, p, n)
			if len(b.Bytes()) != n || cap(b.Bytes()) != n || b.Len() != n {
				t.Errorf("Get(%d) has length %d, capacity %d and Len() = %d, want %d for all", n, len(b.Bytes()), cap(b.Bytes()), b.Len(), n)
			}
			if b.Pool() != p {
				t.Errorf("Get(%d).Pool() = %p, want %p", n, b.Pool(), p)
			}
			s := b.SGE()
			if int(s.Length) != n || s.Addr%64 != 0 {
				t.Errorf("Get(%d).SGE() = %+v, want %d bytes at a multiple of 64", n, s, n)
			}
			if piece := b.Slice(n-1, 1); piece.Addr != s.Addr+uint64(n-1) || piece.Length != 1 || piece.LKey != s.LKey {
				t.Errorf("Get(%d).Slice(%d, 1) = %+v, want the last byte of %+v", n, n-1, piece, s)
			}
			if r := b.Remote(); r.Addr != s.Addr || r.Length != uint64(n) {
				t.Errorf("Get(%d).Remote() = %v, want %+v", n, r, s)
			}
			for _, wrong := range [][2]int{{-1, 1}, {0, n + 1}, {n, 1}, {0, -1}, {1, math.MaxInt}, {math.MaxInt, 1}} {
				panics(t, func() { b.Slice(wrong[0], wrong[1]) })
			}
			clear(b.Bytes())
			b.Free()
		}
		if s := p.Stats(); s.InUse != 128 || s.Registered > pool.DefaultMaxBytes {
			t.Errorf("Stats() = %+v, want 128 bytes in use", s)
		}
	})
}

func TestRemoteNeedsTheRight(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, pool.Config{}, false)
	b := get(t, p, 1)
	defer b.Free()
	panics(t, func() { b.Remote() })
}

func TestConfig(t *testing.T) {
	_, pd := newPD(t)
	page := os.Getpagesize()
	for _, tc := range []struct {
		cfg               pool.Config
		slab, max, tooBig int // 0: New fails
	}{
		{pool.Config{}, 2 << 20, 64 << 20, 64<<20 + 1},
		{pool.Config{MaxBytes: 1<<20 + 1}, 1 << 20, 1 << 20, 1<<20 + 1},
		{pool.Config{MaxBytes: 10 * page}, 8 * page, 10 * page, 10*page + 1},
		{pool.Config{SlabSize: 1}, page, 64 << 20, 64<<20 + 1},
		{pool.Config{SlabSize: 3 * page, MaxBytes: 4 * page}, 4 * page, 4 * page, 4*page + 1},
		{cfg: pool.Config{SlabSize: 3 * page, MaxBytes: 4*page - 1}},
		{cfg: pool.Config{MaxBytes: page - 1}},
		{cfg: pool.Config{MaxBytes: -1}},
		{cfg: pool.Config{SlabSize: -1}},
		{cfg: pool.Config{SlabSize: math.MaxInt, MaxBytes: math.MaxInt}},
	} {
		p, err := pool.New(pd, tc.cfg)
		if tc.max == 0 {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("New(%+v) = %v, want EINVAL", tc.cfg, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("New(%+v) = %v", tc.cfg, err)
			continue
		}
		get(t, p, 1).Free()
		if got := p.Stats().Registered; got != tc.slab {
			t.Errorf("%+v: a slab has %d bytes, want %d", tc.cfg, got, tc.slab)
		}
		get(t, p, tc.max).Free()
		for _, n := range []int{tc.tooBig, math.MaxInt, 0, -1, math.MinInt} {
			for name, call := range map[string]func() (*pool.Buf, error){
				"Get":    func() (*pool.Buf, error) { return p.Get(t.Context(), n) },
				"TryGet": func() (*pool.Buf, error) { return p.TryGet(n) },
			} {
				if b, err := call(); b != nil || !errors.Is(err, syscall.EINVAL) {
					t.Errorf("%+v: %s(%d) = %v, %v, want EINVAL", tc.cfg, name, n, b, err)
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("p.Close: %v", err)
		}
	}
}

// small has one slab of four pages of 4 KiB, at most two slabs.
var small = pool.Config{SlabSize: 16 << 10, MaxBytes: 32 << 10}

// TestTryGet fails where Get would wait, and registers memory where it would not.
func TestTryGet(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, small, debug)
		var bufs []*pool.Buf
		for range 8 {
			b, err := p.TryGet(4096)
			if err != nil {
				t.Fatalf("p.TryGet: %v", err)
			}
			bufs = append(bufs, b)
		}
		if b, err := p.TryGet(1); b != nil || !errors.Is(err, pool.ErrExhausted) {
			t.Errorf("TryGet = %v, %v, want ErrExhausted", b, err)
		}
		// A Get that waits is not overtaken.
		large := getLater(t, deadline(t), p, 8192, 1)
		bufs[0].Free()
		if b, err := p.TryGet(1); b != nil || !errors.Is(err, pool.ErrExhausted) {
			t.Errorf("TryGet with a waiting Get = %v, %v, want ErrExhausted", b, err)
		}
		bufs[1].Free()
		(<-large).b.Free()
		for _, b := range bufs[2:] {
			b.Free()
		}
	})
}

// TestReuse uses the memory of freed Bufs for all sizes, without registering more.
func TestReuse(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		k, pd := newPD(t)
		p := newPool(t, pd, small, debug)
		var bufs []*pool.Buf
		for range 2 * 256 {
			bufs = append(bufs, get(t, p, 64))
		}
		if s := p.Stats(); s.Registered != 32<<10 || s.InUse != 32<<10 {
			t.Fatalf("Stats() = %+v, want all in use", s)
		}
		for _, b := range bufs {
			b.Free()
		}
		k.OnCommand(func(c cmtest.Command) error {
			t.Errorf("command %s, want none", c.Name)
			return nil
		})
		for _, n := range []int{16 << 10, 4096, 5000, 640, 64, 16 << 10} {
			bufs = bufs[:0]
			for used := 0; used < 32<<10; {
				b, err := p.TryGet(n)
				if err != nil {
					break
				}
				bufs = append(bufs, b)
				used = p.Stats().InUse
			}
			if in := p.Stats().InUse; in < 20<<10 {
				t.Errorf("%d Bufs of %d bytes use %d bytes, want at least 20 KiB", len(bufs), n, in)
			}
			for _, b := range bufs {
				b.Free()
			}
		}
		k.OnCommand(nil)
		// A large request needs the memory of both slabs.
		get(t, p, 32<<10).Free()
		get(t, p, 64).Free()
		if s := p.Stats(); s.Registered > 32<<10 || s.InUse != 0 {
			t.Errorf("Stats() = %+v, want nothing in use and at most 32 KiB registered", s)
		}
	})
}

// TestOneSlabForAll has many calls of Get at once on a new pool.
func TestOneSlabForAll(t *testing.T) {
	k, pd := newPD(t)
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == register {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	})
	p := newPool(t, pd, pool.Config{}, false)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { defer get(t, p, 1000).Free() })
	}
	wg.Wait()
	if got := p.Stats().Registered; got != pool.DefaultSlabSize {
		t.Errorf("%d bytes registered, want one slab of %d", got, pool.DefaultSlabSize)
	}
}

// TestStats compares the counts of a pool with its use. Calls that fail do not count.
func TestStats(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, pool.Config{SlabSize: 16 << 10, MaxBytes: 32 << 10}, debug)
		held := [2]*pool.Buf{get(t, p, 16<<10), get(t, p, 16<<10)}
		if b, err := p.TryGet(1); !errors.Is(err, pool.ErrExhausted) {
			t.Errorf("TryGet(1) = %v, %v, want %v", b, err, pool.ErrExhausted)
		}
		later := getLater(t, deadline(t), p, 4096, 1)
		held[0].Free()
		r := <-later
		if r.err != nil {
			t.Fatalf("p.Get: %v", r.err)
		}
		want := pool.Stats{Registered: 32 << 10, InUse: 20 << 10, Gets: 3, Waits: 1, Registrations: 2}
		if got := p.Stats(); got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
		r.b.Free()
		held[1].Free()
	})
}

// TestFIFO checks that waiting calls are served in their order, whatever their sizes.
func TestFIFO(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, pool.Config{SlabSize: 16 << 10, MaxBytes: 16 << 10}, debug)
		var held [4]*pool.Buf
		for i := range held {
			held[i] = get(t, p, 4096)
		}
		sizes := []int{16 << 10, 64, 8192, 64, 4096, 12 << 10, 1}
		var results []<-chan result
		for i, n := range sizes {
			results = append(results, getLater(t, deadline(t), p, n, i+1))
		}
		// The first needs all. The others could be served earlier, but must not be.
		for _, b := range held[:3] {
			b.Free()
		}
		if n := p.Stats().Waiting; n != len(sizes) {
			t.Fatalf("%d calls wait, want %d: the first needs the whole slab", n, len(sizes))
		}
		held[3].Free()
		for i, c := range results {
			r := <-c
			if r.err != nil {
				t.Fatalf("p.Get: %v", r.err)
			}
			for j, later := range results[i+1:] {
				if len(later) > 0 && sizes[i] == 16<<10 {
					t.Errorf("call %d returned before call %d, want the order of the calls", i+1+j, i)
				}
			}
			r.b.Free()
		}
	})
}

// TestFIFOOrder compares the order of service with the order of the calls, one Free at a time.
func TestFIFOOrder(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, pool.Config{SlabSize: 4096, MaxBytes: 4096}, false)
	held := get(t, p, 4096)
	var served atomic.Int64
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			b, err := p.Get(deadline(t), 3000+i) // two do not fit
			if err != nil {
				t.Errorf("p.Get: %v", err)
				return
			}
			if n := served.Add(1); n != int64(i+1) {
				t.Errorf("call %d was served as number %d", i+1, n)
			}
			b.Free()
		})
		waiting(t, p, i+1)
	}
	held.Free()
	wg.Wait()
}

func TestCancel(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, pool.Config{SlabSize: 16 << 10, MaxBytes: 16 << 10}, debug)
		held := get(t, p, 8192)
		ctx, cancel := context.WithCancelCause(context.Background())
		large := getLater(t, ctx, p, 16<<10, 1)
		next := getLater(t, deadline(t), p, 4096, 2)
		cancel(errors.New("changed my mind"))
		if r := <-large; r.b != nil || !errors.Is(r.err, context.Canceled) || !strings.Contains(r.err.Error(), "changed my mind") {
			t.Errorf("cancelled Get() = %v, %v, want the cause of the context", r.b, r.err)
		}
		if r := <-next; r.err != nil {
			t.Errorf("Get after a cancelled Get = %v", r.err)
		} else {
			r.b.Free()
		}
		if b, err := p.Get(ctx, 4096); err != nil {
			t.Errorf("Get with free memory and an ended context = %v", err)
		} else {
			b.Free()
		}
		soon, stop := context.WithTimeout(context.Background(), time.Millisecond)
		defer stop()
		if b, err := p.Get(soon, 16<<10); b != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Get() after a deadline = %v, %v, want %v", b, err, os.ErrDeadlineExceeded)
		}
		if s := p.Stats(); s.Waiting != 0 {
			t.Errorf("Stats() = %+v, want no waiting Get", s)
		}
		held.Free()
		get(t, p, 16<<10).Free()
	})
}

func TestClose(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		k, pd := newPD(t)
		var registered, refuse atomic.Int64
		k.OnCommand(func(c cmtest.Command) error {
			switch c.Name {
			case register:
				registered.Add(1)
			case deregister:
				if refuse.Load() > 0 {
					refuse.Add(-1)
					return syscall.EBUSY
				}
				registered.Add(-1)
			}
			return nil
		})
		p, err := pool.NewMode(pd, small, debug)
		if err != nil {
			t.Fatalf("pool.NewMode: %v", err)
		}
		a, b := get(t, p, 16<<10), get(t, p, 16<<10)
		wait := getLater(t, deadline(t), p, 1, 1)
		closed := func() {
			t.Helper()
			if err := p.Close(); debug && (err == nil || !strings.Contains(err.Error(), "TestClose")) || !debug && err != nil {
				t.Errorf("Close with a Buf in use = %v", err)
			}
		}
		closed()
		if r := <-wait; r.b != nil || !errors.Is(r.err, net.ErrClosed) {
			t.Errorf("waiting Get = %v, %v, want ErrClosed", r.b, r.err)
		}
		for name, call := range map[string]func() (*pool.Buf, error){
			"Get":    func() (*pool.Buf, error) { return p.Get(t.Context(), 1) },
			"TryGet": func() (*pool.Buf, error) { return p.TryGet(1) },
		} {
			if b, err := call(); b != nil || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s of a closed pool = %v, %v, want ErrClosed", name, b, err)
			}
		}
		if n := registered.Load(); n != 2 {
			t.Errorf("%d slabs are registered, want both, which have Bufs", n)
		}
		b.Ref().Free()
		copy(b.Bytes(), "still there")
		b.Free()
		closed() // waits for the deregistration
		if n := registered.Load(); n != 1 {
			t.Errorf("%d slabs are registered, want the one with a Buf", n)
		}
		refuse.Store(2)
		a.Free()
		if err := p.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Close = %v, want EBUSY", err)
		}
		if n := registered.Load(); n != 1 {
			t.Errorf("%d slabs are registered, want the refused one", n)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		if n := registered.Load(); n != 0 || use(p) != (pool.Stats{}) {
			t.Errorf("%d slabs are registered, Stats() = %+v, want nothing", n, p.Stats())
		}
	})
}

// TestFreeDoesNotWait frees the last Bufs of a closed pool while the kernel does not finish the
// deregistration. Free must return, and Close must wait.
func TestFreeDoesNotWait(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		k, pd := newPD(t)
		var atOnce, most atomic.Int64
		begun, proceed := make(chan struct{}, 2), make(chan struct{})
		k.OnCommand(func(c cmtest.Command) error {
			if c.Name == deregister {
				most.Store(max(most.Load(), atOnce.Add(1)))
				begun <- struct{}{}
				<-proceed
				atOnce.Add(-1)
			}
			return nil
		})
		p, err := pool.NewMode(pd, small, debug)
		if err != nil {
			t.Fatalf("pool.NewMode: %v", err)
		}
		a, b := get(t, p, 16<<10), get(t, p, 16<<10)
		if err := p.Close(); !debug && err != nil {
			t.Errorf("p.Close: %v", err)
		}
		a.Free()
		<-begun
		b.Free()
		if s := p.Stats(); s.InUse != 0 || s.Registered != 32<<10 {
			t.Errorf("Stats() = %+v, want 32 KiB that are registered and not in use", s)
		}
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		proceed <- struct{}{}
		<-begun
		select {
		case err := <-closed:
			t.Errorf("Close = %v during a deregistration, want it to wait", err)
		default:
		}
		close(proceed)
		if err := <-closed; err != nil {
			t.Errorf("Close = %v", err)
		}
		if s := use(p); s != (pool.Stats{}) {
			t.Errorf("Stats() = %+v, want nothing", s)
		}
		if n := most.Load(); n != 1 {
			t.Errorf("%d deregistrations at a time, want 1", n)
		}
	})
}

// TestCloseWhileRegistering closes the pool during the registration of a slab.
func TestCloseWhileRegistering(t *testing.T) {
	k, pd := newPD(t)
	p, err := pool.New(pd, small)
	if err != nil {
		t.Fatalf("pool.New: %v", err)
	}
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == register {
			if err := p.Close(); err != nil {
				t.Errorf("p.Close: %v", err)
			}
		}
		return nil
	})
	if b, err := p.Get(t.Context(), 1); b != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Get = %v, %v, want ErrClosed", b, err)
	}
	if s := use(p); s != (pool.Stats{}) {
		t.Errorf("Stats() = %+v, want nothing", s)
	}
}

// TestRefusedEviction has the kernel refuse to deregister the slabs that a large request needs.
func TestRefusedEviction(t *testing.T) {
	k, pd := newPD(t)
	p := newPool(t, pd, small, false)
	a, b := get(t, p, 16<<10), get(t, p, 16<<10)
	wait := getLater(t, deadline(t), p, 20<<10, 1)
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == deregister {
			return syscall.EBUSY
		}
		return nil
	})
	a.Free()
	b.Free()
	if r := <-wait; r.b != nil || !errors.Is(r.err, syscall.EBUSY) {
		t.Errorf("Get = %v, %v, want EBUSY", r.b, r.err)
	}
	if s := p.Stats(); s.Registered != 32<<10 {
		t.Errorf("Stats() = %+v, want both slabs", s)
	}
	a, b = get(t, p, 16<<10), get(t, p, 16<<10) // they are usable
	a.Free()
	b.Free()
	k.OnCommand(nil)
	get(t, p, 20<<10).Free()
}

// TestBoundAfterRefusedEviction calls TryGet while a slab is evicted. If the kernel then refuses to
// deregister the slab, there must not be more memory than MaxBytes.
func TestBoundAfterRefusedEviction(t *testing.T) {
	k, pd := newPD(t)
	cfg := pool.Config{SlabSize: 4 << 10, MaxBytes: 256 << 10}
	p := newPool(t, pd, cfg, false)
	a, b := get(t, p, 200<<10), get(t, p, 40<<10)
	a.Free()
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name != deregister {
			return nil
		}
		if b, err := p.TryGet(100 << 10); !errors.Is(err, pool.ErrExhausted) {
			t.Errorf("TryGet during an eviction = %v, %v, want ErrExhausted", b, err)
		}
		return syscall.EBUSY
	})
	if b, err := p.Get(t.Context(), 60<<10); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Get = %v, %v, want EBUSY", b, err)
	}
	k.OnCommand(nil)
	if s := p.Stats(); s.Registered != 240<<10 {
		t.Errorf("Stats() = %+v, want %d bytes registered", s, 240<<10)
	}
	get(t, p, 60<<10).Free()
	b.Free()
	if s := p.Stats(); s.Registered != 100<<10 {
		t.Errorf("Stats() = %+v, want %d bytes registered", s, 100<<10)
	}
}

// TestRemoval removes the device while calls of Get wait.
func TestRemoval(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		fake := uverbstest.New("rxe0")
		k := cmtest.New(fake)
		pd := openPD(t, k.Host(), "rxe0")
		p := newPool(t, pd, small, debug)
		a, b := get(t, p, 16<<10), get(t, p, 4096)
		waits := []<-chan result{getLater(t, deadline(t), p, 16<<10, 1), getLater(t, deadline(t), p, 1, 2)}
		fake.Remove("rxe0")
		for i, c := range waits {
			// The second may get the memory that the first has waited for.
			if r := <-c; r.b != nil && i == 1 {
				r.b.Free()
			} else if r.b != nil || !isRemoved(r.err) {
				t.Errorf("Get %d on a removed device = %v, %v, want a DeviceRemovedError", i, r.b, r.err)
			}
		}
		if _, err := p.Get(t.Context(), 30<<10); err == nil {
			t.Error("Get of a new slab succeeds on a removed device")
		}
		a.Free()
		b.Free()
	})
}

// TestMemlock has the kernel refuse memory because of RLIMIT_MEMLOCK.
func TestMemlock(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatalf("unix.Getrlimit: %v", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: old.Max}); err != nil {
		t.Fatalf("unix.Setrlimit: %v", err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	k, pd := newPD(t)
	p := newPool(t, pd, small, false)
	defer get(t, p, 1).Free()
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == register {
			return syscall.ENOMEM
		}
		return nil
	})
	_, err := p.Get(t.Context(), 16<<10)
	var op *verbs.OpError
	if !errors.Is(err, syscall.ENOMEM) || !errors.As(err, &op) {
		t.Fatalf("Get = %v, want an OpError of ENOMEM", err)
	}
	for _, part := range []string{"get pool memory on rxe0", "16384 of at most 32768 bytes are registered",
		"RLIMIT_MEMLOCK is 65536 bytes, this process has ", "prlimit --pid"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Get() = %v, want an error that contains %q", err, part)
		}
	}
	k.OnCommand(nil)
	get(t, p, 16<<10).Free()
}

// TestEachCommandFails fails each command of a program that uses a pool. Nothing is left, and the
// errors name the operation.
func TestEachCommandFails(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		for _, errno := range []error{syscall.ENOMEM, syscall.EIO, syscall.EINTR} {
			for n := int64(1); ; n++ {
				k := cmtest.New(uverbstest.New("rxe0"))
				host := k.Host()
				dev, err := host.Open("rxe0")
				if err != nil {
					t.Fatalf("host.Open: %v", err)
				}
				pd, err := dev.AllocPD()
				if err != nil {
					t.Fatalf("dev.AllocPD: %v", err)
				}
				var seen atomic.Int64
				hit := ""
				k.OnCommand(func(c cmtest.Command) error {
					if seen.Add(1) != n {
						return nil
					}
					hit = c.Name
					return errno
				})
				errs := usePool(t, pd, debug)
				done := seen.Load() < n
				for _, c := range []interface{ Close() error }{pd, dev} {
					if err := c.Close(); err != nil {
						c.Close()
					}
				}
				found := false
				for _, err := range errs {
					var op *verbs.OpError
					if !errors.As(err, &op) {
						t.Errorf("error after %v of %s = %v, want an OpError", errno, hit, err)
					}
					found = found || errors.Is(err, errno)
				}
				if !found && !done && hit != deregister { // a Close tries it again
					t.Errorf("errors after %v of %s = %q, want one that wraps it", errno, hit, errs)
				}
				if left := k.Left(); len(left) > 0 {
					t.Errorf("objects left after %v of %s = %q, want none", errno, hit, left)
				}
				if done {
					break
				}
			}
		}
	})
}

// usePool registers and evicts slabs, and returns the errors.
func usePool(t *testing.T, pd *verbs.PD, debug bool) (errs []error) {
	p, err := pool.NewMode(pd, small, debug)
	if err != nil {
		t.Fatalf("pool.NewMode: %v", err)
	}
	var held []*pool.Buf
	for _, sizes := range [][]int{{100, 4096, 16 << 10}, {32 << 10}, {1, 20_000}, {20_000}} {
		for _, n := range sizes {
			b, err := p.TryGet(n)
			if err != nil {
				if !errors.Is(err, pool.ErrExhausted) {
					errs = append(errs, err)
				}
				continue
			}
			clear(b.Bytes())
			if n == 1 {
				held = append(held, b)
			} else {
				b.Free()
			}
		}
	}
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	note(p.Close())
	for _, b := range held {
		b.Free()
	}
	note(p.Close())
	note(p.Close())
	return errs
}

func TestAllocations(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, pool.Config{SlabSize: 64 << 10, MaxBytes: 256 << 10}, false)
	ctx := deadline(t)
	use := func(sizes ...int) func() {
		return func() {
			for _, n := range sizes {
				b, err := p.Get(ctx, n)
				if err != nil {
					t.Fatalf("p.Get: %v", err)
				}
				b.Free()
			}
		}
	}
	for name, f := range map[string]func(){
		"one size":    use(4096),
		"large sizes": use(64<<10, 100<<10),
		"all sizes":   use(1, 100, 5000, 64<<10, 64),
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("allocations of Get and Free of %s = %v, want 0", name, n)
		}
	}
}

// TestWaitAllocations has calls that wait for each other's memory.
func TestWaitAllocations(t *testing.T) {
	_, pd := newPD(t)
	p := newPool(t, pd, pool.Config{SlabSize: 4096, MaxBytes: 4096}, false)
	ctx := context.Background()
	turn, done := make(chan *pool.Buf), make(chan struct{})
	go func() {
		defer close(done)
		for b := range turn {
			for p.Stats().Waiting == 0 {
				time.Sleep(time.Microsecond)
			}
			b.Free()
		}
	}()
	n := testing.AllocsPerRun(100, func() {
		b, err := p.Get(ctx, 4096)
		if err != nil {
			t.Fatalf("p.Get: %v", err)
		}
		turn <- b
		if b, err = p.Get(ctx, 4096); err != nil {
			t.Fatalf("p.Get: %v", err)
		}
		b.Free()
	})
	close(turn)
	<-done
	if n >= 1 {
		t.Errorf("%v allocations per waiting Get, want 0", n)
	}
}

func TestNode(t *testing.T) {
	class := t.TempDir()
	for text, want := range map[string]int{"1\n": 1, "0": 0, "-1\n": -1, "x": -1, "": -1} {
		dir := filepath.Join(class, "mlx5_0", "device")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if got := pool.NodeOf(class, "mlx5_0"); got != want {
			t.Errorf("the node %q is %d, want %d", text, got, want)
		}
	}
	if got := pool.NodeOf(class, "rxe0"); got != -1 {
		t.Errorf("the node of a device without a file is %d, want -1", got)
	}
}

// TestContent checks that Bufs keep their bytes while others come and go.
func TestContent(t *testing.T) {
	modes(t, func(t *testing.T, debug bool) {
		_, pd := newPD(t)
		p := newPool(t, pd, small, debug)
		want := bytes.Repeat([]byte{7}, 3000)
		kept := get(t, p, 3000)
		defer kept.Free()
		copy(kept.Bytes(), want)
		for n := 1; n <= 16<<10; n += 511 {
			b := get(t, p, n)
			clear(b.Bytes())
			b.Free()
		}
		if !bytes.Equal(kept.Bytes(), want) {
			t.Error("other Bufs have changed the bytes")
		}
	})
}

// TestDMABufArguments checks the arguments that NewDMABuf refuses itself.
func TestDMABufArguments(t *testing.T) {
	_, pd := newPD(t)
	for _, tc := range []struct {
		length uint64
		cfg    pool.Config
	}{{0, pool.Config{}}, {100, pool.Config{}}, {1 << 63, pool.Config{}}, {4096, small}, {4096, pool.Config{MaxBytes: 4096}}} {
		if p, err := pool.NewDMABuf(pd, 0, 0, tc.length, tc.cfg); p != nil || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("NewDMABuf of %d bytes, %+v = %v, %v, want EINVAL", tc.length, tc.cfg, p, err)
		}
	}
	if p, err := pool.NewDMABuf(pd, 0, 0, 4096, pool.Config{}); p != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("NewDMABuf on a device without = %v, %v, want ErrUnsupported", p, err)
	}
}
