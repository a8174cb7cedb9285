// SPDX-License-Identifier: Apache-2.0

package connectx

import "time"

// timer calls a function later with the fabric's lock held. The zero timer is not set.
type timer struct {
	t   *time.Timer
	set uint64 // counts calls of start, to detect a late expiry
}

// start sets the timer and replaces the previous setting. The time is divided by the fabric's
// pace.
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

// stop stops the timer.
func (t *timer) stop() {
	t.set++
	if t.t != nil {
		t.t.Stop()
		t.t = nil
	}
}

// running reports whether the timer is set.
func (t *timer) running() bool { return t.t != nil }
