// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// end is one side of a connection.
type end struct {
	s     *soak
	conn  connection
	side  int // 0 for the dialing side
	plan  plan
	life  life
	moved atomic.Int64 // bytes sent and received
	gone  atomic.Bool  // this side has aborted
	done  chan struct{}
}

// run transfers the data and closes the connection.
func (s *soak) run(c connection, side int, p plan, l life) {
	e := &end{s: s, conn: c, side: side, plan: p, life: l, done: make(chan struct{})}
	var watching sync.WaitGroup
	watching.Go(e.watch)
	c.transfer(e)
	if err := c.Close(); err != nil && !e.mayFail() {
		e.fault("Close: %w", err)
	}
	close(e.done)
	watching.Wait()
	s.stats.connections.Add(1)
}

// mayFail reports whether the connection may end before everything has arrived.
func (e *end) mayFail() bool {
	return e.gone.Load() || e.plan.ending == aborts || e.life.over() || e.s.failed.Err() != nil
}

func (e *end) fault(format string, args ...any) {
	side := [...]string{"dialing", "accepting"}[e.side]
	e.s.fault("%v, %s side: %w", e.plan, side, fmt.Errorf(format, args...))
}

// count counts bytes that were sent or received. It aborts the connection if that is planned.
func (e *end) count(n int) {
	e.s.stats.bytes.Add(int64(n))
	if moved := e.moved.Add(int64(n)); e.plan.ending == aborts && e.plan.by == e.side && moved >= e.plan.after {
		e.abort()
	}
}

func (e *end) abort() {
	if e.gone.Swap(true) {
		return
	}
	e.s.stats.aborted.Add(1)
	e.conn.abort()
}

// watch ends the connection after a fault, and when nothing has moved for a long time.
func (e *end) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		select {
		case <-e.done:
			return
		case <-e.s.failed.Done():
			e.abort()
			return
		case <-tick.C:
		}
		if now := e.moved.Load(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > e.s.patience {
			e.fault("nothing has moved for %v after %d bytes sent and received\n%s", e.s.patience, now, stacks())
			return
		}
	}
}
