// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
)

// byGoroutines has as many goroutines as READs may be in flight. Each takes the next block, and
// waits for its READ.
func byGoroutines(ctx context.Context, s *source) (int, error) {
	next := make(chan int, blocks)
	for i := range blocks {
		next <- i
	}
	close(next)
	var totals [inFlight]int
	var errs [inFlight]error
	var all sync.WaitGroup
	for g := range inFlight {
		all.Go(func() { totals[g], errs[g] = readBlocks(ctx, s, next) })
	}
	all.Wait()
	total := 0
	for _, n := range totals {
		total += n
	}
	return total, errors.Join(errs[:]...)
}

// readBlocks reads blocks, one at a time.
func readBlocks(ctx context.Context, s *source, next <-chan int) (total int, err error) {
	b, err := s.pool.Get(ctx, blockSize)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	for i := range next {
		if err := s.conn.Read(ctx, b.SGE(), s.block(i)); err != nil {
			return 0, err
		}
		total += sum(b.Bytes())
	}
	return total, nil
}
