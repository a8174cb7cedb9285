// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"math/bits"
	"syscall"
)

// srqSegment is the size of the first segment of an SRQ's slot. It holds the link to the next one,
// 16 bits at 2 (struct mlx5_wqe_srq_next_seg).
const (
	srqSegment = 16
	srqLink    = 2
)

// srqShape describes the memory layout of a shared receive queue.
type srqShape struct {
	slots  int  // without the wait queue, a power of two
	wait   bool // there are as many slots again, the wait queue
	shift  uint8
	maxSGE int
}

// newSRQShape computes the shape of a queue, as libmlx5 does (mlx5_alloc_srq_buf). It has one slot
// more than there are receives, and as many again for the wait queue, if the device can have them.
func newSRQShape(maxWR, maxSGE, limitWR, limitBytes int) (srqShape, error) {
	// Slots have numbers of 16 bits.
	limitWR = min(limitWR, 1<<16-1)
	if maxWR <= 0 || maxWR > limitWR {
		return srqShape{}, fmt.Errorf("%d receives, the device has at most %d: %w", maxWR, limitWR, syscall.EINVAL)
	}
	if maxSGE < 0 || maxSGE > limitBytes/segment-1 {
		return srqShape{}, fmt.Errorf("%d elements of a receive, the device has at most %d: %w", maxSGE, limitBytes/segment-1, syscall.EINVAL)
	}
	s := srqShape{slots: 1 << log2ceil(maxWR+1), wait: 2*maxWR+1 <= limitWR}
	s.shift = log2ceil(max(srqSegment+maxSGE*segment, 32))
	s.maxSGE = (1<<s.shift - srqSegment) / segment
	return s, nil
}

// total returns how many slots there are, with the wait queue.
func (s srqShape) total() int {
	if s.wait {
		return 2 * s.slots
	}
	return s.slots
}

// bytes returns the size of the queue.
func (s srqShape) bytes() int { return s.total() << s.shift }

// log2ceil returns the logarithm of the smallest power of two that is not below
// n, which is positive.
func log2ceil(n int) uint8 { return uint8(bits.Len(uint(n - 1))) }
