// SPDX-License-Identifier: Apache-2.0

package lograte

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestCounter counts events in virtual time. Each Interval has one record, which counts the events that
// were not logged.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Counter
		for i, step := range []struct {
			after time.Duration
			since uint64
			log   bool
		}{
			{0, 1, true},
			{0, 1, false},
			{Interval - 1, 2, false},
			{1, 3, true},
			{Interval, 1, true},
			{Interval / 2, 1, false},
		} {
			time.Sleep(step.after)
			if since, log := c.Add(); since != step.since || log != step.log {
				t.Errorf("Add() of event %d = %d, %v, want %d, %v", i, since, log, step.since, step.log)
			}
		}
		if got := c.Total(); got != 6 {
			t.Errorf("Total() = %d, want 6", got)
		}
	})
}
