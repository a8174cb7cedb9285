// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progressPeriod is the interval between updates of the line.
const progressPeriod = 250 * time.Millisecond

// progress shows the progress of a test in a line on a terminal.
type progress struct {
	out  io.Writer
	on   bool
	mu   sync.Mutex // guards out
	quit chan struct{}
	done sync.WaitGroup
}

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// start updates the line until stop. n counts requests.
func (p *progress) start(n *atomic.Uint64) {
	if !p.on {
		return
	}
	p.quit = make(chan struct{})
	p.done.Go(func() {
		tick := time.NewTicker(progressPeriod)
		defer tick.Stop()
		var before uint64
		for {
			select {
			case <-p.quit:
				return
			case <-tick.C:
			}
			now := n.Load()
			p.mu.Lock()
			fmt.Fprintf(p.out, "%s%d messages, %.0f a second", eraseLine, now, float64(now-min(before, now))/progressPeriod.Seconds())
			p.mu.Unlock()
			before = now
		}
	})
}

// clear removes the line so that another line can be printed.
func (p *progress) clear() {
	if p.on {
		p.mu.Lock()
		fmt.Fprint(p.out, eraseLine)
		p.mu.Unlock()
	}
}

// stop ends the updates.
func (p *progress) stop() {
	if p.quit != nil {
		close(p.quit)
		p.done.Wait()
		p.clear()
	}
}
