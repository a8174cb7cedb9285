// SPDX-License-Identifier: Apache-2.0

package connectx

import "time"

// timer calls a function once, later, with the fabric's lock held. The zero timer is
// not set.
type timer struct {
	t   *time.Timer
	set uint64 // counts what was set, so that a late one is known
}

// start sets the timer, which replaces what it was set to. The fabric's pace
// divides the time.
func (t *timer) start(f *Fabric, after time.Duration, run func()) {
	t.stop()
	mine := t.set
	t.t = time.AfterFunc(time.Duration(float64(after)/f.pace), func() {
		f.lock()
		defer f.unlock()
		if t.set == mine {
			t.set++
			t.t = nil
			run()
		}
	})
}

// stop ends it.
func (t *timer) stop() {
	t.set++
	if t.t != nil {
		t.t.Stop()
		t.t = nil
	}
}

// running says whether it is set.
func (t *timer) running() bool { return t.t != nil }
