// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"runtime"
	"sync/atomic"
)

// The runtime's monitor thread sleeps, up to a minute, when all goroutines do, and wakes
// at the next ordinary system call. The data path makes none, only raw ones. While the
// thread sleeps nobody interrupts a goroutine that goes on and on, and if such ones have
// all processors nobody looks whether the file of another one is ready, either.
//
// Waking it each time that a goroutine wakes is dear: it then looks around every 20
// microseconds for a while, and every 10 milliseconds for as long as somebody runs. So it
// is woken only where all processors may be taken.

// awake is called by a goroutine that an event has woken, which it has fetched by raw
// calls.
func awake() {
	if runtime.GOMAXPROCS(0) == 1 {
		wakeMonitor()
	}
}

// Lookout finds out, for who polls in a loop, whether other goroutines get to run.
type Lookout struct {
	waits atomic.Bool // for ran
	ran   func()
}

func NewLookout() *Lookout {
	l := new(Lookout)
	l.ran = func() { l.waits.Store(false) }
	return l
}

// Look starts a goroutine that is to run before the next Look. If the last one still has
// not, nobody has had a processor for it: the monitor thread is to see to that.
func (l *Lookout) Look() {
	if l.waits.Swap(true) {
		wakeMonitor()
		return
	}
	go l.ran()
}
