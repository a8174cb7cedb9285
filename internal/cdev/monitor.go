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
// is woken where there is one processor, and by pollers whom nobody else can run beside.
// Goroutines that only compute and have several processors, all, are not seen to.

// pokeMonitor is called after a wait for an event, which has been fetched by raw calls. Whether
// it was there already does not matter: one processor is not where latency counts.
func pokeMonitor() {
	if runtime.GOMAXPROCS(0) == 1 {
		wakeMonitor()
	}
}

// StarvationProbe reports to a goroutine that polls in a loop whether other goroutines get to run. Its
// zero value is ready to use.
type StarvationProbe struct {
	waits atomic.Bool // a goroutine was started, and has not run
	ran   func()      // is the goroutine; made by the first Check. Whoever sets waits reads and writes it
}

// Check starts a goroutine that is to run before the next Check. If the last one still has
// not, nobody has had a processor for it: the monitor thread is to see to that.
func (l *StarvationProbe) Check() {
	if l.waits.Swap(true) {
		wakeMonitor()
		return
	}
	if l.ran == nil {
		l.ran = func() { l.waits.Store(false) }
	}
	go l.ran()
}
