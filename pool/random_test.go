// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/pool"
)

// claims is the model of a pool. It has the owner of each piece of memory.
type claims struct {
	mu    sync.Mutex
	owner map[uint64]*pool.Buf // by address, in pieces of 64 bytes
	bytes int
}

// claim records that a Buf was handed out. It returns another owner of the memory, or nil.
func (c *claims) claim(b *pool.Buf) *pool.Buf {
	s := b.SGE()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += b.Len()
	for a := s.Addr; a < s.Addr+uint64(s.Length); a += 64 {
		if o := c.owner[a]; o != nil {
			return o
		}
		c.owner[a] = b
	}
	return nil
}

func (c *claims) release(b *pool.Buf) {
	s := b.SGE()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= b.Len()
	for a := s.Addr; a < s.Addr+uint64(s.Length); a += 64 {
		delete(c.owner, a)
	}
}

func (c *claims) used() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// stamp fills a Buf with a number. stamped reports whether the Buf still has it.
func stamp(b *pool.Buf, n uint64) {
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], n)
	for m := b.Bytes(); len(m) > 0; {
		m = m[copy(m, word[:]):]
	}
}

func stamped(b *pool.Buf, n uint64) bool {
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], n)
	for i, c := range b.Bytes() {
		if c != word[i%8] {
			return false
		}
	}
	return true
}

// randomSize returns small sizes mostly, and now and then a size of up to the whole pool.
func randomSize(r *rand.Rand, most int) int {
	switch r.IntN(20) {
	case 0:
		return 1 + r.IntN(most)
	case 1, 2:
		return 1 + r.IntN(most/4)
	}
	return 1 + r.IntN(most/32)
}

// TestRandom has goroutines get and free Bufs of all sizes, with and without waiting, with contexts
// that end, and with references of other goroutines. Live Bufs never overlap, their bytes do not
// change, and the pool keeps its bound.
func TestRandom(t *testing.T) {
	rounds := 400
	if longtest.Enabled() {
		rounds = 5000
	}
	modes(t, func(t *testing.T, debug bool) {
		k, pd := newPD(t)
		cfg := pool.Config{SlabSize: 64 << 10, MaxBytes: 256 << 10}
		p := newPool(t, pd, cfg, debug)
		model := &claims{owner: map[uint64]*pool.Buf{}}
		stop := make(chan struct{})
		var fails sync.Mutex
		chance := rand.New(rand.NewPCG(1, 2))
		k.OnCommand(func(c cmtest.Command) error {
			fails.Lock()
			defer fails.Unlock()
			if (c.Name == register || c.Name == deregister) && chance.IntN(20) == 0 {
				return errFault
			}
			return nil
		})
		ctx := t.Context() // a run has no time limit of its own
		var users, watcher sync.WaitGroup
		watcher.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				if s := p.Stats(); s.Registered > cfg.MaxBytes || s.Registered < 0 || s.InUse > s.Registered || s.InUse < 0 || s.Waiting < 0 {
					t.Errorf("Stats() = %+v, MaxBytes is %d", s, cfg.MaxBytes)
					return
				}
				if used := model.used(); used > cfg.MaxBytes {
					t.Errorf("%d bytes are handed out, MaxBytes is %d", used, cfg.MaxBytes)
				}
			}
		})
		for user := range 8 {
			users.Go(func() {
				r := rand.New(rand.NewPCG(7, uint64(user)))
				for i := range rounds {
					useOne(t, ctx, p, model, r, uint64(user*rounds+i+1), cfg.MaxBytes)
				}
			})
		}
		users.Wait()
		close(stop)
		watcher.Wait()
		k.OnCommand(nil)
		if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 {
			t.Errorf("Stats() = %+v, want nothing in use", s)
		}
		get(t, p, cfg.MaxBytes).Free() // nothing is lost
	})
}

var errFault = errors.New("fault of the test")

// useOne gets one Buf, writes to it, and frees it.
func useOne(t *testing.T, ctx context.Context, p *pool.Pool, model *claims, r *rand.Rand, id uint64, most int) {
	n := randomSize(r, most)
	var b *pool.Buf
	var err error
	switch r.IntN(4) {
	case 0:
		b, err = p.TryGet(n)
	case 1:
		soon, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Microsecond)
		b, err = p.Get(soon, n)
		cancel()
	default:
		b, err = p.Get(ctx, n)
	}
	if err != nil {
		if ctx.Err() != nil || b != nil || !errors.Is(err, pool.ErrExhausted) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errFault) {
			t.Errorf("Get(%d) = %v, %v, want a Buf or the error of a short wait", n, b, err)
		}
		return
	}
	if b.Len() != n {
		t.Errorf("Get(%d).Len() = %d, want %d", n, b.Len(), n)
	}
	if o := model.claim(b); o != nil {
		t.Errorf("Bufs %+v and %+v overlap", b.SGE(), o.SGE())
	}
	stamp(b, id)
	check := func() {
		if !stamped(b, id) {
			t.Errorf("another user has written to %+v", b.SGE())
		}
	}
	if r.IntN(3) == 0 { // the "device" keeps it longer than its owner
		done := make(chan struct{})
		kept := b.Ref()
		go func() {
			defer close(done)
			check()
			model.release(kept)
			kept.Free()
		}()
		b.Free()
		<-done
		return
	}
	if r.IntN(8) == 0 {
		time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
	}
	check()
	model.release(b)
	b.Free()
}

// FuzzGet compares a sequence of calls with a model. Bufs do not overlap and keep their bytes, and all
// memory can be handed out in the end.
func FuzzGet(f *testing.F) {
	f.Add([]byte{1, 2, 3, 128, 129, 5, 6, 7})
	f.Add([]byte{127, 127, 127, 127, 128, 128, 128, 128, 1})
	f.Add([]byte{0, 0, 0, 64, 64, 200, 200, 127, 255, 255, 127})
	_, pd := newPD(f)
	cfg := pool.Config{SlabSize: 8 << 10, MaxBytes: 32 << 10}
	f.Fuzz(func(t *testing.T, program []byte) {
		for _, debug := range []bool{false, true} {
			p, err := pool.NewMode(pd, cfg, debug)
			if err != nil {
				t.Fatalf("pool.NewMode: %v", err)
			}
			model := &claims{owner: map[uint64]*pool.Buf{}}
			var live []*pool.Buf
			for i, op := range program {
				if op >= 128 && len(live) > 0 {
					j := int(op-128) % len(live)
					b := live[j]
					live[j] = live[len(live)-1]
					live = live[:len(live)-1]
					if !stamped(b, b.SGE().Addr) {
						t.Errorf("step %d: the bytes of %+v have changed", i, b.SGE())
					}
					model.release(b)
					b.Free()
					continue
				}
				n := 1 + (int(op)*int(op)*int(op))%(32<<10)
				b, err := p.TryGet(n)
				if err != nil {
					if !errors.Is(err, pool.ErrExhausted) || len(live) == 0 {
						t.Errorf("step %d: TryGet(%d) = %v with %d Bufs in use", i, n, err, len(live))
					}
					continue
				}
				if o := model.claim(b); o != nil {
					t.Errorf("step %d: Bufs %+v and %+v overlap", i, b.SGE(), o.SGE())
				}
				stamp(b, b.SGE().Addr)
				live = append(live, b)
				if s := p.Stats(); s.Registered > cfg.MaxBytes || s.InUse > s.Registered || s.InUse < model.bytes {
					t.Errorf("step %d: Stats() = %+v with %d bytes in use", i, s, model.bytes)
				}
			}
			for _, b := range live {
				b.Free()
			}
			if b, err := p.TryGet(cfg.MaxBytes); err != nil {
				t.Errorf("TryGet of all memory = %v", err)
			} else {
				b.Free()
			}
			if err := p.Close(); err != nil {
				t.Errorf("p.Close: %v", err)
			}
		}
	})
}
