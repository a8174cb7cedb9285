// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"purerdma/internal/mem"
)

func region(t testing.TB, size int) []byte {
	r, err := mem.Alloc(size)
	if err != nil {
		t.Fatalf("mem.Alloc(size): %v", err)
	}
	t.Cleanup(func() { r.Free() })
	return r.Bytes()
}

var good = Layout{Producer: 128, Consumer: 256, Data: 384, LogSlot: 6, Mask: 7, MinSlot: 48}

func TestFillAndEmpty(t *testing.T) {
	r, err := New(region(t, 384+8*64), good)
	if err != nil {
		t.Fatalf("New(region(t, 384+8*64), good): %v", err)
	}
	if r.Cap() != 7 {
		t.Errorf("Cap() = %d, want 7", r.Cap())
	}
	var producer, consumer uint32
	for round := range uint64(40) {
		var n uint64
		for ; r.Next(producer) != r.LoadConsumer(); n++ {
			*At[uint64](&r, producer) = round<<32 | n
			producer = r.Next(producer)
		}
		r.StoreProducer(producer)
		if n != 7 || r.Count(r.LoadProducer(), consumer) != 7 {
			t.Fatalf("round %d: %d items fit, and Count = %d, want 7", round, n, r.Count(r.LoadProducer(), consumer))
		}
		// The ring has 8 slots, so that its start moves in each round.
		for i := range uint64(7) {
			if got := *At[uint64](&r, consumer); got != round<<32|i {
				t.Fatalf("round %d: item %d = %#x, want %#x", round, i, got, round<<32|i)
			}
			consumer = r.Next(consumer)
		}
		r.StoreConsumer(consumer)
	}
}

// TestHostileIndices stores indices that no correct kernel stores.
func TestHostileIndices(t *testing.T) {
	mem := region(t, 384+8*64)
	r, err := New(mem, good)
	if err != nil {
		t.Fatalf("New(mem, good): %v", err)
	}
	for _, v := range []uint32{8, 9, 1 << 31, ^uint32(0), 0xfffffff8} {
		r.producer.Store(v)
		r.consumer.Store(v)
		if p, c := r.LoadProducer(), r.LoadConsumer(); p > 7 || c > 7 {
			t.Errorf("indices %#x load as %d and %d, want at most 7", v, p, c)
		}
		if n := r.Count(r.LoadProducer(), 3); n < 0 || n > 7 {
			t.Errorf("Count with the index %#x = %d, want 0 to 7", v, n)
		}
		clear(Tail[byte](&r, v, 0, 64)) // must not fault or write outside the slot
	}
}

func TestLayouts(t *testing.T) {
	mem := region(t, 384+8*64)
	if _, err := New(mem, good); err != nil {
		t.Errorf("New with a valid layout: %v", err)
	}
	for name, change := range map[string]func(*Layout){
		"mask 0":            func(l *Layout) { l.Mask = 0 },
		"mask 6":            func(l *Layout) { l.Mask = 6 },
		"mask all ones":     func(l *Layout) { l.Mask = ^uint32(0) },
		"more slots":        func(l *Layout) { l.Mask = 15 },
		"larger slots":      func(l *Layout) { l.LogSlot = 7 },
		"huge slots":        func(l *Layout) { l.LogSlot = 64 },
		"slots too small":   func(l *Layout) { l.MinSlot = 65 },
		"data beyond":       func(l *Layout) { l.Data = 4096 * 4 },
		"data odd":          func(l *Layout) { l.Data = 385 },
		"data negative":     func(l *Layout) { l.Data = -8 },
		"producer beyond":   func(l *Layout) { l.Producer = len(mem) },
		"consumer odd":      func(l *Layout) { l.Consumer = 257 },
		"consumer negative": func(l *Layout) { l.Consumer = -4 },
	} {
		l := good
		change(&l)
		if _, err := New(mem, l); !errors.Is(err, ErrLayout) {
			t.Errorf("New with %s = %v, want %v", name, err, ErrLayout)
		}
	}
}

func TestTailPanics(t *testing.T) {
	r, err := New(region(t, 384+8*64), good)
	if err != nil {
		t.Fatalf("New(region(t, 384+8*64), good): %v", err)
	}
	if n := len(Tail[uint64](&r, 3, 40, 3)); n != 3 {
		t.Errorf("Tail has %d elements, want 3", n)
	}
	for _, bad := range [][2]int{{40, 4}, {64, 1}, {72, 0}, {-8, 1}, {0, -1}, {0, math.MaxInt}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Tail at %d of %d elements did not panic", bad[0], bad[1])
				}
			}()
			Tail[uint64](&r, 3, bad[0], bad[1])
		}()
	}
}

// FuzzLayout checks that New refuses a layout, or returns a ring with all slots inside its memory. An access
// to a slot outside faults at the page after the memory.
func FuzzLayout(f *testing.F) {
	f.Add(128, 256, 384, uint32(6), uint32(7), 48, uint32(5))
	f.Add(0, 4, 8, uint32(3), uint32(511), 8, ^uint32(0))
	mem := region(f, 4096)
	f.Fuzz(func(t *testing.T, producer, consumer, data int, logSlot, mask uint32, minSlot int, index uint32) {
		r, err := New(mem, Layout{Producer: producer, Consumer: consumer, Data: data, LogSlot: logSlot, Mask: mask, MinSlot: minSlot})
		if err != nil {
			return
		}
		r.StoreProducer(index)
		r.StoreConsumer(r.Next(index))
		for i := range mask + 1 {
			b := Tail[byte](&r, i, 0, 1<<logSlot)
			b[0], b[len(b)-1] = 1, 1
		}
		r.LoadProducer()
		r.LoadConsumer()
	})
}

// TestOrder passes data of Go's memory between the sides. It fails with the race detector if that
// does not see the order of the two.
func TestOrder(t *testing.T) {
	r, err := New(region(t, 384+8*64), good)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	var sent, taken int
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r.LoadProducer() == 0 {
			runtime.Gosched()
		}
		taken = sent
		r.StoreConsumer(1)
	}()
	sent = 5
	r.StoreProducer(1)
	for r.LoadConsumer() == 0 {
		runtime.Gosched()
	}
	if taken != 5 {
		t.Errorf("the consumer has read %d, want 5", taken)
	}
	<-done
}
