// SPDX-License-Identifier: Apache-2.0

package main

import (
	"iter"
	"slices"
)

// underWay is the number of connections that run a step concurrently. The connection manager
// repeats messages that are not answered within 4 seconds, up to 15 times. A server that is
// behind with thousands of connections would get even more messages and fall further behind.
const underWay = 512

// portions divides connections into groups that run a step together. Each group comes with a
// number of connections. The next group starts when at most that many connections have not
// completed the step, including those not yet started. For the last group the number is 0.
func portions[C any](conns []C) iter.Seq2[[]C, int] {
	return func(yield func([]C, int) bool) {
		left := len(conns)
		for portion := range slices.Chunk(conns, underWay/2) {
			left -= len(portion)
			pending := 0
			if left > 0 {
				pending = left + underWay/2
			}
			if !yield(portion, pending) {
				return
			}
		}
	}
}
