// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestTurn takes a turn from many goroutines, of which many stop waiting. One goroutine at a time must have
// the turn, and it must be free at the end.
func TestTurn(t *testing.T) {
	var turn Turn
	turn.Init()
	held, taken := 0, 0 // guarded by turn
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				if g%2 == 0 {
					go cancel()
				}
				err := turn.Take(ctx)
				if err == nil {
					if held++; held != 1 {
						t.Errorf("holders of the turn = %d, want 1", held)
					}
					taken++
					held--
					turn.Give()
				} else if g%2 != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("Take %d of goroutine %d: %v", i, g, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if taken < 4*2000 {
		t.Errorf("the turn was taken %d times, want at least %d", taken, 4*2000)
	}
	if n := turn.users.Load(); n != 0 || len(turn.next) != 0 {
		t.Errorf("the turn has %d users and %d tokens in the end", n, len(turn.next))
	}
}

// TestTurnEnded checks that Take with an ended context takes a free turn, and does not wait for a taken
// turn.
func TestTurnEnded(t *testing.T) {
	var turn Turn
	turn.Init()
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if err := turn.Take(ctx); err != nil {
		t.Fatalf("Take of a free turn = %v, want nil", err)
	}
	if err := turn.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Take of a taken turn = %v, want %v", err, context.DeadlineExceeded)
	}
	turn.Give()
	if err := turn.Take(context.Background()); err != nil {
		t.Errorf("Take after Give = %v, want nil", err)
	}
}
