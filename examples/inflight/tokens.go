// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
	"purerdma/pool"
)

// byTokens has one goroutine, which starts READs and waits for them in their order. The token of a
// READ and its memory are in a ring.
func byTokens(ctx context.Context, s *source) (total int, err error) {
	var ops [inFlight]cm.Op
	var bufs [inFlight]*pool.Buf
	started, taken := 0, 0
	defer func() {
		for ; taken < started; taken++ { // after an error
			ops[taken%inFlight].Abandon()
			bufs[taken%inFlight].Free()
		}
	}()
	for ; taken < blocks; taken++ {
		for ; started < min(taken+inFlight, blocks); started++ {
			b, err := s.pool.Get(ctx, blockSize)
			if err != nil {
				return 0, err
			}
			op, err := s.conn.StartRead(ctx, b.SGE(), s.block(started), b.Ref())
			if err != nil {
				b.Free()
				return 0, err
			}
			ops[started%inFlight], bufs[started%inFlight] = op, b
		}
		if err := ops[taken%inFlight].Wait(ctx); err != nil {
			return 0, err
		}
		total += sum(bufs[taken%inFlight].Bytes())
		bufs[taken%inFlight].Free()
	}
	return total, nil
}
