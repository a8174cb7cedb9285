// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"purerdma/internal/clock"
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

// init sets the bound, or with 0 the default.
func (s *spin) init(max time.Duration) {
	// With GOMAXPROCS=1, spinning can starve the goroutine that would produce the completion.
	if max == 0 && runtime.GOMAXPROCS(0) > 1 {
		max = defaultSpin
	}
	s.set(max)
}

func (s *spin) set(max time.Duration) { s.max.Store(int64(max)) }

// start returns the start of a wait by package clock, or 0 if it is not needed.
func (s *spin) start() int64 {
	if s.max.Load() <= 0 {
		return 0
	}
	return clock.Now()
}

// poll polls until there is a completion, and at most as long as the bound. It returns 0 early if the
// wait has another reason to end, which the caller then finds.
func (s *spin) poll(ctx context.Context, cq *CQ, l *leader, start int64, wcs []WC) (int, error) {
	max := s.max.Load()
	if max <= 0 || start == 0 {
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
				s.mean.Store(clock.Now() - start) // without a wake-up
			}
			return n, err
		}
		if i%16 != 0 {
			continue
		}
		passed := clock.Now() - start
		if passed > max || passed > int64(defaultSpin) && cq.interrupted(ctx) {
			return 0, nil
		}
		if i%lookPeriod == 0 {
			cq.starvation.Check()
		}
	}
}

// interrupted reports whether a wait for a completion has to end or to look at the state of the CQ.
func (c *CQ) interrupted(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-c.done:
	case <-c.dev.removed:
	default:
		return c.overrun.Load()
	}
	return true
}

// learn adjusts the average to the duration of a wait, with weight 1/8.
func (s *spin) learn(start int64) {
	if start == 0 {
		return
	}
	mean := s.mean.Load()
	s.mean.Store(mean + (clock.Now()-start-mean)/8)
}
