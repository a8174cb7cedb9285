// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progressPeriod is how often the line is drawn.
const progressPeriod = 250 * time.Millisecond

// progress is a line on a terminal that says how far a test is.
type progress struct {
	out  io.Writer
	on   bool
	mu   sync.Mutex // of out
	quit chan struct{}
	done sync.WaitGroup
}

// eraseLine goes to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// start draws the line until stop. n counts requests.
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

// clear takes the line away, for another one to be printed.
func (p *progress) clear() {
	if p.on {
		p.mu.Lock()
		fmt.Fprint(p.out, eraseLine)
		p.mu.Unlock()
	}
}

// stop ends it.
func (p *progress) stop() {
	if p.quit != nil {
		close(p.quit)
		p.done.Wait()
		p.clear()
	}
}
