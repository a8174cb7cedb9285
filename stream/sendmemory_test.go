// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"purerdma/internal/streamconn"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/pool"
)

// testBlock is the number of bytes of a block in the tests of sendMemory.
const testBlock = 100

// member is a connection of a sendMemory without a link.
type member struct {
	mu    sync.Mutex // as link.mu
	share memoryShare
	held  []charge
}

func newMember(m *sendMemory) *member {
	return &member{share: memoryShare{memory: m, conn: streamconn.New(nil), block: testBlock}}
}

// take takes n bytes without waiting.
func (x *member) take(n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, ok := x.share.take(n)
	if ok {
		x.held = append(x.held, c)
	}
	return ok
}

// free releases the memory of element i of held, and wakes the writer as the completion of a frame does.
func (x *member) free(i int) {
	x.mu.Lock()
	x.share.release(x.held[i])
	x.held = append(x.held[:i], x.held[i+1:]...)
	x.mu.Unlock()
	streamconn.WakeWriter(x.share.conn)
}

// fill takes blocks until one is refused, and returns the number of the blocks.
func (x *member) fill() (blocks int) {
	for x.take(testBlock) {
		blocks++
	}
	return blocks
}

// TestSendMemory checks how many blocks each connection gets if none of them frees any, and which waiting
// connection gets a block that is freed.
func TestSendMemory(t *testing.T) {
	m := &sendMemory{free: 16 * testBlock}
	var all []*member
	for i, want := range []int{1 + 9, 1 + 4, 1 + 2, 1 + 1, 1, 1} {
		x := newMember(m)
		all = append(all, x)
		if n := x.fill(); n != want {
			t.Errorf("fill() of connection %d = %d blocks, want %d", i, n, want)
		}
	}
	if m.free != 0 {
		t.Errorf("free = %d, want 0", m.free)
	}
	// Connection 0 frees one block after the other. Each goes to the first connection whose need it meets.
	for i, want := range []int{3, 4, 5, -1, 2} {
		all[0].free(1)
		got := -1
		for j, x := range all {
			if x.share.granted {
				if got = j; !x.take(testBlock) {
					t.Errorf("take() of connection %d with a grant = false, want true", j)
				}
			}
		}
		if got != want {
			t.Errorf("free() number %d: grant to connection %d, want %d", i, got, want)
		}
	}
	checkEnd(t, m, 16*testBlock, all)
}

// checkEnd frees everything, and checks that all memory is free then.
func checkEnd(t *testing.T, m *sendMemory, size int, all []*member) {
	t.Helper()
	for i, x := range all {
		for len(x.held) > 0 {
			x.free(0)
		}
		x.mu.Lock()
		x.share.leave()
		x.mu.Unlock()
		if s := &x.share; s.first || s.asked != 0 || s.granted || s.taken != 0 {
			t.Errorf("share of connection %d = %+v after the last free, want nothing", i, s)
		}
	}
	if m.free != size || len(m.waiting) != 0 {
		t.Errorf("free, waiting = %d, %d, want %d, 0", m.free, len(m.waiting), size)
	}
}

// TestSendMemoryInTurns has connections that take a block each in turn, until all are refused. About the share
// of one more connection remains free.
func TestSendMemoryInTurns(t *testing.T) {
	const size = 1000 * testBlock
	for n := 1; n <= 100; n++ {
		m := &sendMemory{free: size}
		all := make([]*member, n)
		for i := range all {
			all[i] = newMember(m)
		}
		for refused := 0; refused < n; {
			refused = 0
			for _, x := range all {
				if !x.take(testBlock) {
					refused++
				}
			}
		}
		if share := size / (n + 1); m.free < share-2*testBlock || m.free > share+testBlock {
			t.Errorf("free = %d with %d connections, want %d, or at most two blocks less or one more", m.free, n, share)
		}
		checkEnd(t, m, size, all)
	}
}

// TestSendMemoryWake has a writer that waits for memory, and whose connection frees none itself.
func TestSendMemoryWake(t *testing.T) {
	m := &sendMemory{free: 2 * testBlock}
	x, waiting := newMember(m), newMember(m)
	for m.free > 0 {
		x.take(testBlock)
	}
	waiting.take(testBlock)
	refused, taken := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(taken)
		if err := streamconn.Handover(waiting.share.conn, func() (bool, error) {
			ok := waiting.take(testBlock)
			if !ok {
				close(refused)
			}
			return ok, nil
		}); err != nil {
			t.Errorf("Handover() = %v", err)
		}
	}()
	<-refused
	x.free(1)
	select {
	case <-taken:
	case <-time.After(streamconntest.Limit):
		t.Fatal("Handover() hangs after free(1), want a grant")
	}
	checkEnd(t, m, 2*testBlock, []*member{x, waiting})
}

// TestSendMemoryLarge takes more than all memory, as WriteBuf does with a large Buf. Only a connection without
// memory may do this.
func TestSendMemoryLarge(t *testing.T) {
	const size, large = 4 * testBlock, 10 * testBlock
	m := &sendMemory{free: size}
	x, other := newMember(m), newMember(m)
	x.take(testBlock)
	if x.take(large) {
		t.Errorf("take(%d) of a connection with a block = true, want false", large)
	}
	x.free(0)
	if !x.take(large) {
		t.Errorf("take(%d) of a connection without memory = false, want true", large)
	}
	if n := other.fill(); n != 1 {
		t.Errorf("fill() of another connection = %d, want 1", n)
	}
	x.free(0)
	if !other.share.granted {
		t.Error("granted = false after all memory was freed, want true")
	}
	checkEnd(t, m, size, []*member{x, other})
}

// TestSendMemoryAbandoned has a writer that does not return for its grant. The grant goes to another
// connection when the connection requests another size, has freed its last block, or leaves.
func TestSendMemoryAbandoned(t *testing.T) {
	for name, end := range map[string]func(x *member){
		"other size": func(x *member) { x.take(3 * testBlock) },
		"last block": func(x *member) { x.free(0) },
		"leave": func(x *member) {
			x.mu.Lock()
			x.share.leave()
			x.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 2 * testBlock
			m := &sendMemory{free: size}
			first, x, waiting := newMember(m), newMember(m), newMember(m)
			all := []*member{first, x, waiting}
			for _, y := range all {
				y.fill()
			}
			for x.share.taken == 0 {
				first.free(1)
			}
			if !x.share.granted || waiting.share.granted {
				t.Fatalf("granted = %v, %v, want true, false", x.share.granted, waiting.share.granted)
			}
			end(x)
			if x.share.granted || !waiting.share.granted {
				t.Errorf("granted = %v, %v after the end, want false, true", x.share.granted, waiting.share.granted)
			}
			checkEnd(t, m, size, all)
		})
	}
}

// TestSendMemoryAllocations checks that refusing and granting memory allocates nothing.
func TestSendMemoryAllocations(t *testing.T) {
	m := &sendMemory{free: 4 * testBlock}
	x := newMember(m)
	x.fill()
	once := func() {
		x.free(1)
		if !x.take(testBlock) || x.take(testBlock) {
			t.Error("take() = false, or true for a second block")
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n > 0 {
		t.Errorf("a grant allocates %v times, want 0", n)
	}
}

// TestSendMemoryRandom has many connections that take memory at the same time and wait for it. Other
// goroutines free it. Some connections never free theirs until the others have ended. Every waiting
// connection must be woken.
func TestSendMemoryRandom(t *testing.T) {
	const size, conns, stuck, takes = 40 * testBlock, 12, 4, 2000
	m := &sendMemory{free: size}
	all := make([]*member, conns)
	var wait sync.WaitGroup
	for i := range all {
		x := newMember(m)
		all[i] = x
		if i < stuck {
			x.fill()
			continue
		}
		random := rand.New(rand.NewPCG(1, uint64(i)))
		ended := make(chan struct{})
		wait.Go(func() {
			defer close(ended)
			for range takes {
				n := testBlock
				switch random.IntN(20) {
				case 0:
					n = 1 + random.IntN(2*size)
				case 1: // it does not wait, and requests another size the next time
					x.take(1 + random.IntN(3*testBlock))
				}
				if err := streamconn.Handover(x.share.conn, func() (bool, error) { return x.take(n), nil }); err != nil {
					t.Errorf("Handover() = %v", err)
				}
				if random.IntN(8) == 0 {
					if err := checkMemory(m, size); err != nil {
						t.Errorf("checkMemory() = %v", err)
					}
				}
			}
		})
		wait.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			for {
				select {
				case <-ended:
					return
				default:
				}
				x.mu.Lock()
				n := len(x.held)
				x.mu.Unlock()
				if n > 0 && random.IntN(3) > 0 {
					x.free(random.IntN(n))
				}
				runtime.Gosched()
			}
		})
	}
	wait.Wait()
	checkEnd(t, m, size, all)
}

// checkMemory returns an error if the request of a waiting connection could be granted.
func checkMemory(m *sendMemory, size int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.free > size {
		return fmt.Errorf("free = %d, want at most %d", m.free, size)
	}
	for _, s := range m.waiting {
		if s.need() <= m.free || s.granted || s.asked == 0 {
			return fmt.Errorf("waiting connection: need, asked = %d, %d with %d free and granted = %v, want a need above the free memory",
				s.need(), s.asked, m.free, s.granted)
		}
	}
	return nil
}

// TestPoolBytes takes all memory that the connections of a Shared may have at a time. The pool must have room
// for it.
func TestPoolBytes(t *testing.T) {
	dev, err := streamconntest.RXE(t).Host().Open("rxe0")
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("AllocPD() = %v", err)
	}
	defer pd.Close()
	for _, cfg := range []SharedConfig{
		{},
		{Slot: 256, Depth: baseWindow, SendBytes: 1},
		{Slot: 1024, Depth: 96, SendBytes: 256 << 10},
		{Slot: 20_000, Depth: 40, SendBytes: 1 << 20},
		{Slot: defaultSlot + frameLen + 1, Depth: 10, SendBytes: 1_000_000},
	} {
		cfg = NewShared(cfg).config // with the defaults
		p, err := pool.New(pd, pool.Config{MaxBytes: cfg.poolBytes()})
		if err != nil {
			t.Fatalf("pool.New() for %+v = %v", cfg, err)
		}
		var taken []*pool.Buf
		take := func(n int) {
			b, err := p.TryGet(n)
			if err != nil {
				t.Errorf("TryGet(%d) for %+v after %d others: %v", n, cfg, len(taken), err)
				return
			}
			taken = append(taken, b)
		}
		payload := max(cfg.Slot, defaultSlot) - frameLen
		blocks := cfg.SendBytes / poolBlock(payload)
		for range cfg.Depth {
			take(cfg.Slot)
		}
		for range cfg.Depth / baseWindow {
			take(headerBytes)
			take(payload)
		}
		for range blocks {
			take(payload)
		}
		for range cfg.Depth / 4 {
			take(cfg.Slot)
		}
		for _, b := range taken {
			b.Free()
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}
