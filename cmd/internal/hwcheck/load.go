// SPDX-License-Identifier: Apache-2.0

package hwcheck

import "time"

// Numbers of repetitions that find a rare fault of a card.
const (
	manyWakeups  = 1_000_000
	manyRequests = 1 << 18 // one doorbell each
	manyQPs      = 100_000
	manyResizes  = 10_000
)

// load bounds the additional repetitions of a check by their number and by the effort of the target.
type load struct {
	goal int
	end  time.Time
}

// load begins the time of the additional repetitions.
func (t *trial) load(goal int) load { return load{goal, time.Now().Add(t.target.Effort)} }

// more reports whether the check must repeat more than n times.
func (w *load) more(n int) bool { return n < w.goal && time.Now().Before(w.end) }

// noteLoad adds the number of repetitions to the evidence.
func (t *trial) noteLoad(w load, n int, what string) { t.note("%d of %d %s", n, w.goal, what) }
