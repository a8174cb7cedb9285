// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"sync"
	"time"
)

// Timer calls a function later, with a fabric's lock held. The zero Timer is not set. The lock
// must also be held during calls of its methods.
type Timer struct {
	t       *time.Timer
	changes uint64 // to detect a late expiry
}

// Start sets the timer, and replaces the previous setting.
func (t *Timer) Start(fabric sync.Locker, after time.Duration, run func()) {
	t.Stop()
	mine := t.changes
	t.t = time.AfterFunc(after, func() {
		fabric.Lock()
		defer fabric.Unlock()
		if t.changes == mine {
			t.changes++
			t.t = nil
			run()
		}
	})
}

// Stop stops the timer.
func (t *Timer) Stop() {
	t.changes++
	if t.t != nil {
		t.t.Stop()
		t.t = nil
	}
}

// Running reports whether the timer is set.
func (t *Timer) Running() bool { return t.t != nil }

// Changes returns how often the timer was set, stopped, or has expired.
func (t *Timer) Changes() uint64 { return t.changes }
