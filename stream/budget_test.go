// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
)

// budgetTest has the connections of a budget, without QPs.
type budgetTest struct {
	t        *testing.T
	b        *budget
	depth    int
	links    []*link
	arrivals []chan struct{}
}

// add adds a connection with n credits.
func (x *budgetTest) add(n, most int) {
	l := &link{budget: x.b, mute: true, opts: Options{Window: most}}
	l.send.idleSet = true // no timer
	l.recv.window = n
	x.links = append(x.links, l)
}

// takeGrants adds the connections that have waited for their base.
func (x *budgetTest) takeGrants(most int) {
	for len(x.arrivals) > 0 && closed(x.arrivals[0]) {
		x.arrivals = x.arrivals[1:]
		x.add(baseWindow, most)
	}
}

// check waits until serve has ended, and compares the counts with the windows of the connections.
func (x *budgetTest) check(step string) {
	x.t.Helper()
	for {
		x.b.mu.Lock()
		if !x.b.serving {
			break
		}
		x.b.mu.Unlock()
		runtime.Gosched()
	}
	defer x.b.mu.Unlock()
	windows, lent := 0, 0
	for _, l := range x.links {
		l.mu.Lock()
		windows += l.recv.window
		lent += l.recv.window - baseWindow
		l.mu.Unlock()
	}
	b := x.b
	switch {
	case b.free < 0 || b.free+windows != x.depth:
		x.t.Fatalf("%s: free %d + windows %d = %d, want %d", step, b.free, windows, b.free+windows, x.depth)
	case b.lent != lent:
		x.t.Fatalf("%s: lent = %d, want %d", step, b.lent, lent)
	case len(b.arrivals) != len(x.arrivals) || b.wanted.Load() != (len(b.arrivals) > 0):
		x.t.Fatalf("%s: arrivals = %d, wanted = %v, want %d arrivals", step, len(b.arrivals), b.wanted.Load(), len(x.arrivals))
	case len(b.arrivals) > 0 && b.free >= baseWindow:
		x.t.Fatalf("%s: free = %d while %d new connections wait", step, b.free, len(b.arrivals))
	case len(b.arrivals) == 0 && b.waiting.Len() > 0 && b.free > b.reserve:
		x.t.Fatalf("%s: free = %d, reserve = %d while %d connections wait", step, b.free, b.reserve, b.waiting.Len())
	}
}

// TestBudgetRandom makes and ends connections in a random order, and takes and returns credits. After each step all
// credits exist once.
func TestBudgetRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		x := &budgetTest{t: t, depth: baseWindow + rng.IntN(80)}
		x.b = newBudget(&SharedConfig{Depth: x.depth})
		for range 300 {
			most := baseWindow + rng.IntN(30)
			step := "nothing"
			var l *link
			if len(x.links) > 0 {
				l = x.links[rng.IntN(len(x.links))]
			}
			switch op := rng.IntN(8); {
			case op == 0:
				step = "arrive"
				if n, arrival := x.b.arrive(most); arrival != nil {
					x.arrivals = append(x.arrivals, arrival)
				} else if n > 0 {
					x.add(n, most)
				}
			case op == 1:
				step = "base with an ended context"
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if n := x.b.base(ctx, most); n > 0 {
					x.add(n, most)
				}
			case l == nil:
			case op <= 3:
				step = "wantMore"
				l.mu.Lock()
				l.wantMore()
				l.mu.Unlock()
			case op <= 5:
				step = "release"
				l.mu.Lock()
				if extra := l.recv.window - baseWindow; extra > 0 {
					n := 1 + rng.IntN(extra)
					l.recv.window -= n
					x.b.release(n)
				}
				l.mu.Unlock()
			case op == 6:
				step = "use of all credits"
				l.mu.Lock()
				l.recv.received = l.recv.announced
				l.mu.Unlock()
			default:
				step = "leave"
				x.end(l)
			}
			x.takeGrants(most)
			x.check(step)
		}
		for len(x.links) > 0 {
			x.end(x.links[0])
			x.takeGrants(baseWindow)
			x.check("the last leave")
		}
		if x.b.free != x.depth || x.b.waiting.Len() > 0 {
			t.Fatalf("seed %d: free, waiting = %d, %d at the end, want %d, 0", seed, x.b.free, x.b.waiting.Len(), x.depth)
		}
	}
}

// end ends a connection.
func (x *budgetTest) end(l *link) {
	l.mu.Lock()
	l.freed = true
	window := l.recv.window
	l.mu.Unlock()
	for i := range x.links {
		if x.links[i] == l {
			x.links = append(x.links[:i], x.links[i+1:]...)
			break
		}
	}
	x.b.leave(window)
}
