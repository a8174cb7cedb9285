// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"sync"
	"sync/atomic"
)

// gate counts the commands that run on an ID, and closes once. The kernel reuses
// the number of an ID as soon as it is destroyed: a command that came after that
// would hit somebody else's connection.
type gate struct {
	mu     sync.Mutex
	inside int
	closed atomic.Bool   // written with mu; posting looks at it without
	empty  chan struct{} // set by shut, closed when the last command has left
}

// nobody is what a gate has as empty if nobody was inside when it was shut.
var nobody = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter admits a command; false means that the gate is shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed.Load() && g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) isShut() bool { return g.closed.Load() }

// shut lets nobody in any more. The first caller gets true and a channel that is
// closed when nobody is inside.
func (g *gate) shut() (first bool, empty <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return false, g.empty
	}
	g.closed.Store(true)
	g.empty = nobody
	if g.inside > 0 {
		g.empty = make(chan struct{})
	}
	return true, g.empty
}
