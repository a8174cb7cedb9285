// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

var (
	duration = flag.Duration("soak", time.Minute, "for how long the traffic runs")
	seedFlag = flag.Uint64("seed", 0, "what random choices are made from; 0 is any")
	lanes    = flag.Int("lanes", 64, "queue pairs on each side")
)

func TestMain(m *testing.M) {
	os.Setenv("PURERDMA_POOL_DEBUG", "1") // also in child processes
	if seed := os.Getenv("SOAK_CHILD"); seed != "" {
		os.Exit(child(seed))
	}
	vmtest.Main(m)
}

// run runs everything on both devices, with lanes within this process and to two other
// processes.
func (s *soak) run(hosts []vmtest.Host, lanes int) error {
	var nodes []*node
	for _, h := range hosts[:2] {
		n, err := openNode(s, verbs.DefaultHost(), h)
		if err != nil {
			s.fault("%w", err)
			break
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 2 {
		s.traffic(nodes[0], nodes[1], lanes)
	}
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			s.fault("%w", err)
		}
	}
	s.left.Clear() // it grows with each connection and would look like a leak
	return s.err()
}

func (s *soak) traffic(near, far *node, lanes int) {
	ln, err := far.listen()
	if err != nil {
		s.fault("%w", err)
		return
	}
	var serving, active sync.WaitGroup
	serving.Go(func() { far.serve(ln) })
	here := func() (target, bool) { return target{ln.Addr().String(), func() bool { return false }}, true }
	peers := []*peer{{s: s}, {s: s}}
	for i, p := range peers {
		if err := p.spawn(); err != nil {
			s.fault("%w", err)
			continue
		}
		active.Go(func() { p.haunt(uint32(i)) })
	}
	for i := range uint32(lanes) {
		switch {
		case s.failed.Err() != nil:
		case isFlight(i) && i%4 == 3:
			active.Go(func() { near.lane(flightBit|i, peers[i/16%2].target) })
		case isFlight(i):
			active.Go(func() { near.lane(flightBit|i, here) })
		case i%4 == 3: // a quarter connects to other processes
			active.Go(func() { near.lane(i, peers[i/4%2].target) })
		case i%16 < 2 && near.caps.imm:
			active.Go(func() { raw(near, far, i, []verbs.QPType{verbs.UC, verbs.UD}[i%2]) })
		default:
			active.Go(func() { near.lane(i, here) })
		}
	}
	active.Wait()
	for _, p := range peers {
		p.stop()
	}
	ln.Close()
	serving.Wait()
}

// memoryNow is the memory of the process without garbage, in bytes.
type memoryNow struct{ heap, resident, pinned, locked int64 }

func measure(t *testing.T) (m memoryNow) {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	m.heap = int64(ms.HeapAlloc)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		for name, p := range map[string]*int64{"VmRSS:": &m.resident, "VmPin:": &m.pinned, "VmLck:": &m.locked} {
			if f[0] == name {
				kb, _ := strconv.ParseInt(f[1], 10, 64)
				*p = kb << 10
			}
		}
	}
	return m
}

// stop ends the traffic after a time. With all set, a slow machine gets up to four times as long, until
// the traffic has included everything.
func (s *soak) stop(cancel func(), after time.Duration, all bool) {
	defer cancel()
	for start := time.Now(); s.ctx.Err() == nil && s.failed.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if d := time.Since(start); d >= 4*after || d >= after && (!all || s.complete()) {
			return
		}
	}
}

// complete reports whether the traffic has included everything.
func (s *soak) complete() bool {
	for _, n := range []*atomic.Int64{&s.stats.messages, &s.stats.broken, &s.stats.offers, &s.stats.kills, &s.stats.flights, &s.stats.abandoned, &s.stats.cancelled} {
		if n.Load() == 0 {
			return false
		}
	}
	return true
}

// TestSoak runs the traffic, first for a short time and then for a long time. The long run must
// not leave more behind than the short run.
func TestSoak(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64() >> 32
	}
	t.Logf("seed %d", seed)
	var before memoryNow
	for i, d := range []time.Duration{*duration / 10, *duration * 9 / 10} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSoak(ctx, seed+uint64(i))
		go s.stop(cancel, d, i == 1)
		err := s.run(hosts, *lanes)
		cancel()
		t.Logf("%v: %v", d, &s.stats)
		if err != nil {
			t.Fatalf("%v\nAgain with -args '-seed %d -soak %v -lanes %d'", err, seed, *duration, *lanes)
		}
		after := measure(t)
		t.Logf("memory: %+v", after)
		if i == 0 {
			before = after
			continue
		}
		if after.heap > before.heap+4<<20 || after.resident > before.resident+32<<20 || after.pinned > before.pinned || after.locked > before.locked {
			t.Errorf("memory after the longer run = %+v bytes, after the shorter run %+v", after, before)
		}
		if !s.complete() {
			t.Error("the traffic has not included everything")
		}
		// The kernel reports the death of a process once, in a datagram.
		if silent, kills := s.stats.silent.Load(), s.stats.kills.Load(); silent > 1+kills/50 {
			t.Errorf("%d ends got no event of their peer's death, with %d kills", silent, kills)
		}
	}
}
