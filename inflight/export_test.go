// SPDX-License-Identifier: Apache-2.0

package inflight

// Pending returns the number of operations that have not completed.
func (q *Queue) Pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}
