// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"sync"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// adding is a driver whose CQs get completions that do not come from the kernel, such as
// completions of requests that a provider flushes.
type adding struct {
	rxe.Driver
	cqs chan *addingCQ
}

type addingContext struct {
	provider.Context
	cqs chan *addingCQ
}

type addingCQ struct {
	provider.CQ
	wake func()

	mu  sync.Mutex
	own []provider.WC
}

func (d adding) Open(f *uverbs.File) (provider.Context, error) {
	ctx, err := d.Driver.Open(f)
	return addingContext{ctx, d.cqs}, err
}

func (d adding) ID() abi.DriverID { return d.Driver.ID() }

func (c addingContext) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	cq, err := c.Context.CreateCQ(cfg)
	own := &addingCQ{CQ: cq, wake: cfg.Wake}
	c.cqs <- own
	return own, err
}

func (c *addingCQ) Poll(wcs []provider.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := copy(wcs, c.own); n > 0 {
		c.own = c.own[n:]
		return n, nil
	}
	return c.CQ.Poll(wcs)
}

func (c *addingCQ) add(id uint64) {
	c.mu.Lock()
	c.own = append(c.own, provider.WC{ID: id})
	c.mu.Unlock()
	c.wake()
}

// TestAddedCompletions checks that completions without an event wake all waiters. One waiter
// reads the channel, one waits on another CQ of the channel, and one waits for events.
func TestAddedCompletions(t *testing.T) {
	rt := fakeRoute()
	driver := adding{cqs: make(chan *addingCQ, 2)}
	rt.h.Drivers = []provider.Driver{driver}
	dev := openDevice(t, rt.h, "rxe0")
	ch := createCompChannel(t, dev)
	var cqs [2]*verbs.CQ
	var own [2]*addingCQ
	for i := range cqs {
		cqs[i] = createCQ(t, dev, verbs.CQConfig{Channel: ch})
		cqs[i].SetSpin(0)
		own[i] = <-driver.cqs
	}
	ctx := deadline(t)
	for round := range uint64(100) {
		first := int(round % 2) // the waiter that reads the channel
		var wg sync.WaitGroup
		for k, i := range []int{first, 1 - first} {
			wg.Go(func() {
				wcs := make([]verbs.WC, 4)
				if n, err := cqs[i].Wait(ctx, wcs); n != 1 || err != nil || wcs[0].ID != round {
					t.Errorf("round %d, CQ %d: Wait = %d, %v, want 1, nil with ID %d", round, i, n, err, round)
				}
			})
			if k == 0 && round%3 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if round%4 < 2 {
			time.Sleep(time.Millisecond)
		}
		own[1].add(round)
		own[0].add(round)
		wg.Wait()
	}

	// CompChannel.Next.
	wcs := make([]verbs.WC, 4)
	for round := range 10 {
		if err := cqs[1].Arm(false); err != nil {
			t.Fatalf("CQ.Arm(false): %v", err)
		}
		time.AfterFunc(time.Millisecond*time.Duration(round%3), func() { own[1].add(7) })
		for {
			cq, err := ch.Next(ctx)
			if err != nil {
				t.Fatalf("CompChannel.Next: %v", err)
			}
			if n, err := cq.Poll(wcs); err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			} else if n == 1 && cq == cqs[1] {
				break
			}
		}
	}
}
