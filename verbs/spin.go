// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync/atomic"
	"time"
)

// defaultSpin is approximately the cost of a sleep and a wake-up.
const defaultSpin = 10 * time.Microsecond

// spin decides how long a wait polls before it sleeps. It does not poll if recent completions took
// longer than the bound, except for one wait of spinAgain. Otherwise it would never poll again on a machine
// whose wake-ups take longer than the bound, because the duration of a wait includes its wake-up.
type spin struct {
	max     atomic.Int64  // nanoseconds; 0: never poll
	mean    atomic.Int64  // of the latest waits, nanoseconds
	skipped atomic.Uint32 // waits that did not poll because of mean
	hits    atomic.Uint64 // counts the waits that found a completion
}

// spinAgain is the number of waits of which one polls in spite of the mean.
const spinAgain = 64

func (s *spin) init() {
	// With GOMAXPROCS=1, spinning can starve the goroutine that would produce the completion.
	if runtime.GOMAXPROCS(0) > 1 {
		s.max.Store(int64(defaultSpin))
	}
}

func (s *spin) set(max time.Duration) { s.max.Store(int64(max)) }

// start returns the start time of a wait, or the zero Time if it is not needed.
func (s *spin) start() time.Time {
	if s.max.Load() <= 0 {
		return time.Time{}
	}
	return time.Now()
}

func (s *spin) poll(cq *CQ, l *leader, start time.Time, wcs []WC) (int, error) {
	max := s.max.Load()
	if max <= 0 || start.IsZero() {
		return 0, nil
	}
	slow := s.mean.Load() > max
	if slow && s.skipped.Add(1)%spinAgain != 0 {
		return 0, nil
	}
	for i := 1; ; i++ {
		if n, err := cq.poll(wcs, l); n > 0 || err != nil {
			if n > 0 {
				s.hits.Add(1)
			}
			if slow {
				s.mean.Store(int64(time.Since(start))) // without a wake-up
			}
			return n, err
		}
		if i%16 == 0 && int64(time.Since(start)) > max {
			return 0, nil
		}
	}
}

// learn adjusts the average to the duration of a wait, with weight 1/8.
func (s *spin) learn(start time.Time) {
	if start.IsZero() {
		return
	}
	mean := s.mean.Load()
	s.mean.Store(mean + (int64(time.Since(start))-mean)/8)
}
