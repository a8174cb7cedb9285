// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"

	"purerdma/verbs"
)

// byFunctions has one goroutine, which starts READs. The goroutine that polls for completions calls
// the function of each READ.
func byFunctions(ctx context.Context, s *source) (int, error) {
	q, err := s.conn.Operations()
	if err != nil {
		return 0, err
	}
	var total atomic.Int64
	results := make(chan error, inFlight) // the functions never wait for room
	for i := range blocks + inFlight {
		if i >= inFlight {
			select {
			case err := <-results:
				if err != nil {
					return 0, err
				}
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if i >= blocks {
			continue
		}
		b, err := s.pool.Get(ctx, blockSize)
		if err != nil {
			return 0, err
		}
		from := s.block(i)
		wr := verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{b.SGE()}, RemoteAddr: from.Addr, RKey: from.RKey}
		err = q.Go(ctx, &wr, b.Ref(), func(err error) {
			if err == nil {
				total.Add(int64(sum(b.Bytes())))
			}
			b.Free()
			results <- err
		})
		if err != nil {
			b.Free()
			return 0, err
		}
	}
	return int(total.Load()), nil
}
