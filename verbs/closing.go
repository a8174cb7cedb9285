// SPDX-License-Identifier: Apache-2.0

package verbs

import "sync"

// closing lists the numbers of the QPs of a context that are being closed. Some kernels assign the
// number of a QP again at once, even before the command that destroys the QP returns. A completion names its QP
// only by the number. So CreateQP returns a QP with such a number only after the CQs have no
// completions of the old QP, or have passed them to their handlers.
type closing struct {
	mu   sync.Mutex
	nums map[uint32]chan struct{} // closed by the function that begin returns
}

// begin records that the QP of a number is about to be destroyed. The caller calls end when the CQs are
// clean, or if the QP was not destroyed.
func (c *closing) begin(num uint32) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nums == nil {
		c.nums = map[uint32]chan struct{}{}
	}
	ended := make(chan struct{})
	c.nums[num] = ended
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.nums, num)
		close(ended)
	}
}

// wait returns when no QP of that number is being closed.
func (c *closing) wait(num uint32) {
	c.mu.Lock()
	ended := c.nums[num]
	c.mu.Unlock()
	if ended != nil {
		<-ended
	}
}
