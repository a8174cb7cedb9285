// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"purerdma/provider"
)

// emptyCQ never has a completion.
type emptyCQ struct{ provider.CQ }

func (emptyCQ) Poll([]provider.WC) (int, error) { return 0, nil }

func (emptyCQ) Arm(bool) error { return nil }

// bareCQ returns an empty CQ without a device, on a channel whose reader is another goroutine.
func bareCQ() *CQ {
	ch := &CompChannel{dev: new(deviceContext), turn: make(chan struct{}, 1), interrupt: func() {}, added: map[*CQ]struct{}{}}
	ch.turn <- struct{}{}
	return &CQ{dev: ch.dev, p: emptyCQ{}, ch: ch, done: make(chan struct{}), notify: make(chan struct{}, 1)}
}

// pollingCQ is an empty CQ that calls a function at each poll.
type pollingCQ struct {
	emptyCQ
	poll func()
}

func (c pollingCQ) Poll([]provider.WC) (int, error) {
	c.poll()
	return 0, nil
}

// TestOverrunBeforeSleeping has a CQ overrun after a waiter has checked for an overrun and
// before it sleeps. Another waiter has taken the token and left.
func TestOverrunBeforeSleeping(t *testing.T) {
	cq, polls := bareCQ(), 0
	cq.SetSpin(time.Nanosecond)
	cq.p = pollingCQ{poll: func() {
		if polls++; polls == 2 { // the first poll is while Wait spins
			cq.markOverrun()
			<-cq.notify
		}
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := cq.Wait(ctx, make([]WC, 1)); !errors.Is(err, ErrOverrun) {
		t.Errorf("CQ.Wait: error = %v, want ErrOverrun", err)
	}
}

// TestInterruptReader checks that a channel is only interrupted while a goroutine reads it.
func TestInterruptReader(t *testing.T) {
	ch := bareCQ().ch
	n := 0
	ch.interrupt = func() { n++ }
	ch.interruptReader()
	if n != 1 {
		t.Errorf("with a reader: %d interrupts, want 1", n)
	}
	<-ch.turn
	ch.interruptReader()
	if n != 1 || len(ch.turn) != 0 {
		t.Errorf("without a reader: %d interrupts more, want 0, and the turn is taken %d times, want 0", n-1, len(ch.turn))
	}
}

// TestAddedWhileClosing has a CQ overrun during its Close. Next must not return it afterwards.
func TestAddedWhileClosing(t *testing.T) {
	cq := bareCQ()
	cq.ch.refs.add(kindChannel)
	if err := cq.Arm(false); err != nil {
		t.Fatalf("CQ.Arm(false): %v", err)
	}
	var done sync.WaitGroup
	cq.ch.mu.Lock()
	for _, do := range []func(){func() { cq.forget() }, cq.markOverrun} {
		done.Go(do)
		time.Sleep(5 * time.Millisecond) // until the goroutine waits for the lock
	}
	cq.ch.mu.Unlock()
	done.Wait()
	if got := cq.ch.takeAdded(); got != nil {
		t.Error("takeAdded returned a closed CQ")
	}
}
