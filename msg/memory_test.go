// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/pool"
)

// TestMemoryStalls uses up the pool of a connection. Sends, calls and answers with data wait for memory, and others
// go on.
func TestMemoryStalls(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		ctx := streamconntest.Deadline(t)
		var served sync.WaitGroup
		defer served.Wait()
		defer s.Close()
		served.Go(func() { serve(s) })
		var held []*pool.Buf
		for size := 1 << 20; size > 0; {
			b, err := c.Pool().TryGet(size)
			switch {
			case err == nil:
				held = append(held, b)
			case errors.Is(err, pool.ErrExhausted):
				size /= 2
			default:
				t.Fatalf("TryGet(%d) = %v", size, err)
			}
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if err := c.Send(short, 1, pattern(1, 1000)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Send() without memory = %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if n := c.Stats().MemoryStalls; n != 1 {
			t.Errorf("MemoryStalls = %d after a Send without memory, want 1", n)
		}
		check(t, ctx, c, 2, nil) // it needs no memory
		go func() {
			for c.Stats().MemoryStalls < 2 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			for _, b := range held {
				b.Free()
			}
		}()
		check(t, ctx, c, 3, pattern(3, 1000))
		if n := c.Stats().MemoryStalls; n != 2 {
			t.Errorf("MemoryStalls = %d after a Call that waited for memory, want 2", n)
		}
	})
}
