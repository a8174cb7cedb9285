// SPDX-License-Identifier: Apache-2.0

package main

import (
	"iter"
	"slices"
)

// underWay is how many connections go through a step at once. The connection
// manager sends what is not answered within 4 seconds again, up to 15 times: a server
// that is behind with thousands would have the more to do, and be the later for it.
const underWay = 512

// portions divides connections that go through a step together. With each portion
// comes how many of all may not have ended the step, begun or not, when the next one
// begins; with the last one, 0.
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
