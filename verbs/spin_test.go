// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"math"
	"testing"
	"time"

	"purerdma/provider"
)

// laterCQ has a completion after enough polls, or some time after it has been armed.
type laterCQ struct {
	provider.CQ
	enough      int
	slow        time.Duration
	polls, arms int
}

func (c *laterCQ) Poll(wcs []provider.WC) (int, error) {
	c.polls++
	if c.arms == 0 && c.polls < c.enough {
		return 0, nil
	}
	time.Sleep(c.slow)
	return 1, nil
}

func (c *laterCQ) Arm(bool) error {
	c.arms++
	return nil
}

// waitLater waits for the completion of a laterCQ.
func waitLater(t *testing.T, cq *CQ, later *laterCQ) *laterCQ {
	t.Helper()
	cq.p = later
	if n, err := cq.Wait(t.Context(), make([]WC, 1)); n != 1 || err != nil {
		t.Fatalf("CQ.Wait = %d, %v, want 1, nil", n, err)
	}
	if later.arms > 0 {
		cq.eventRead()
	}
	return later
}

// TestSpin counts how often a wait polls before it arms the CQ. It polls only once without a
// bound, or if the latest waits have been longer.
func TestSpin(t *testing.T) {
	cq := bareCQ()
	wait := func(later laterCQ) *laterCQ {
		t.Helper()
		return waitLater(t, cq, &later)
	}
	// One poll before the arm and one after it.
	atOnce := func(c *laterCQ) bool { return c.arms == 1 && c.polls == 2 }

	cq.SetSpin(time.Hour)
	if c := wait(laterCQ{enough: 100}); c.arms != 0 || c.polls != 100 {
		t.Errorf("wait within the bound: %d polls, %d arms, want 100, 0", c.polls, c.arms)
	}
	cq.SetSpin(0)
	if c := wait(laterCQ{enough: 100}); !atOnce(c) {
		t.Errorf("wait without a bound: %d polls, %d arms, want 2, 1", c.polls, c.arms)
	}

	cq = bareCQ()
	cq.SetSpin(time.Millisecond)
	if c := wait(laterCQ{enough: math.MaxInt, slow: 20 * time.Millisecond}); c.arms != 1 || c.polls <= 2 {
		t.Errorf("wait beyond the bound: %d polls, %d arms, want more than 2, 1", c.polls, c.arms)
	}
	// An eighth of the wait is more than the bound.
	if c := wait(laterCQ{enough: 100}); !atOnce(c) {
		t.Errorf("wait after a long wait: %d polls, %d arms, want 2, 1", c.polls, c.arms)
	}

	// 24 short waits reduce a mean of 24 hours to less than one hour.
	cq.SetSpin(time.Hour)
	cq.spin.mean.Store(int64(24 * time.Hour))
	long := 0
	for atOnce(wait(laterCQ{enough: 100})) {
		if long++; long > 100 {
			t.Fatal("100 short waits did not reduce the mean")
		}
	}
	if long < 10 {
		t.Errorf("%d short waits ended the effect of a long one, want at least 10", long)
	}
}

// TestWaitStats counts waits that polling ends, and a wait that sleeps. A wait that finds a completion in its first
// poll does not count.
func TestWaitStats(t *testing.T) {
	cq := bareCQ()
	cq.SetSpin(time.Hour)
	waitLater(t, cq, &laterCQ{enough: 1})
	for range 2 {
		waitLater(t, cq, &laterCQ{enough: 100})
	}
	cq.SetSpin(0)
	waitLater(t, cq, &laterCQ{enough: 100})
	if got, want := cq.Stats(), (CQStats{Waits: 3, SpinHits: 2, Wakeups: 1}); got != want {
		t.Errorf("CQ.Stats = %+v, want %+v", got, want)
	}
}

// TestSpinAgain checks that waits poll again after a long wait, even if each wake-up takes longer than the bound.
func TestSpinAgain(t *testing.T) {
	cq := bareCQ()
	const bound = 50 * time.Millisecond
	cq.SetSpin(bound)
	cq.spin.mean.Store(int64(time.Hour))
	wait := func() *laterCQ { return waitLater(t, cq, &laterCQ{enough: 100}) }
	for i := 1; wait().arms > 0; i++ {
		cq.spin.mean.Store(int64(2 * bound)) // as if the wake-up had taken so long
		if i > spinAgain {
			t.Fatalf("none of %d waits polled", i)
		}
	}
	if c := wait(); c.arms != 0 || c.polls != c.enough {
		t.Errorf("wait after a short one: %d polls, %d arms, want %d, 0", c.polls, c.arms, c.enough)
	}
}

// TestLongSpin ends waits that poll for an hour.
func TestLongSpin(t *testing.T) {
	for name, end := range map[string]func(*CQ, context.CancelFunc){
		"context": func(_ *CQ, cancel context.CancelFunc) { cancel() },
		"close":   func(cq *CQ, _ context.CancelFunc) { close(cq.done) },
		"overrun": func(cq *CQ, _ context.CancelFunc) { cq.overrun.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			cq := bareCQ()
			cq.SetSpin(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			polled := make(chan struct{}, 1)
			cq.p = pollingCQ{poll: func() {
				select {
				case polled <- struct{}{}:
				default:
				}
			}}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if n, err := cq.spin.poll(ctx, cq, nil, cq.spin.start(), make([]WC, 1)); n != 0 || err != nil {
					t.Errorf("spin.poll() = %d, %v, want 0, nil", n, err)
				}
			}()
			<-polled
			end(cq, cancel)
			<-ended
		})
	}
}
