// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

var (
	goroutines = flag.Int("bench", 0, "measure the rate of GETs with this `number` of goroutines")
	duration   = flag.Duration("for", 5*time.Second, "the time of -bench")
)

// measure prints the rate of GETs.
func measure(ctx context.Context, c *Client, w io.Writer) error {
	if err := c.Put(ctx, "color", "blue"); err != nil {
		return err
	}
	var count atomic.Int64
	errs := make(chan error)
	end := time.Now().Add(*duration)
	for range *goroutines {
		go func() {
			var err error
			for ; err == nil && time.Now().Before(end); count.Add(1) {
				_, err = c.Get(ctx, "color")
			}
			errs <- err
		}()
	}
	var err error
	for range *goroutines {
		err = errors.Join(err, <-errs)
	}
	fmt.Fprintf(w, "goroutines: %d, GETs per second: %.0f\n", *goroutines, float64(count.Load())/duration.Seconds())
	return err
}
