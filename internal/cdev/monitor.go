// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"runtime"
	"sync/atomic"
)

// The runtime's monitor thread sleeps, up to a minute, when all goroutines do, and wakes at the
// next ordinary system call. The data path makes only raw ones. While the thread sleeps, no running
// goroutine is preempted. If such goroutines occupy all processors, the network poller does not run
// either, and ready files of other goroutines wait.
//
// Waking the monitor thread after each wait is expensive. It then checks every 20 microseconds for
// a while, and every 10 milliseconds as long as any goroutine runs. So it is woken only if there is
// one processor, and by pollers that leave no processor to other goroutines. Goroutines that only
// compute and occupy all of several processors are not handled.

// pokeMonitor is called after a wait for an event, which raw calls have fetched. It is also called
// if the event was there already, because latency does not matter with one processor.
func pokeMonitor() {
	if runtime.GOMAXPROCS(0) == 1 {
		wakeMonitor()
	}
}

// StarvationProbe reports to a goroutine that polls in a loop whether other goroutines get to run. Its
// zero value is ready to use.
type StarvationProbe struct {
	waits atomic.Bool // a goroutine was started, and has not run
	ran   func()      // the goroutine, made by the first Check. The setter of waits reads and writes it
}

// Check starts a goroutine that should run before the next Check. If the last one still has not
// run, it has had no processor, and Check wakes the monitor thread.
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
