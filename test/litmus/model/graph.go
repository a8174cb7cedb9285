// SPDX-License-Identifier: Apache-2.0

package model

import "math/bits"

// graph is a relation between at most 64 events. Each event has a set of followers.
type graph []uint64

func (g graph) add(i, j int) { g[i] |= 1 << j }

// cyclic reports whether the relation has a cycle. It removes events without followers until none
// is left.
func (g graph) cyclic() bool {
	left := uint64(1)<<len(g) - 1
	for left != 0 {
		removed := uint64(0)
		for rest := left; rest != 0; rest &= rest - 1 {
			if i := bits.TrailingZeros64(rest); g[i]&left == 0 {
				removed |= 1 << i
			}
		}
		if removed == 0 {
			return true
		}
		left &^= removed
	}
	return false
}
