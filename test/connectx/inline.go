// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// holds reports whether a completion of the queue can contain n bytes of data.
func (q *cq) holds(n int) bool { return n <= 32 || n <= 64 && q.size == 128 }

// inline stores data in a completion, if there are any. It returns the part for the first half
// of a completion of 128 bytes.
func (q *cq) inline(e *completion, data []byte) (wide []byte) {
	switch n := len(data); {
	case n == 0:
		return nil
	case n <= 32:
		prm.CQE.Format.Set(e[:], 1)
		copy(prm.CQE.Inline.Of(e[:]), data)
		return nil
	default:
		prm.CQE.Format.Set(e[:], 2)
		return data
	}
}
