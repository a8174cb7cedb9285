// SPDX-License-Identifier: Apache-2.0

package mlx5

import "unsafe"

// recvQueue is the receive queue of a QP: count slots of 1<<shift bytes. Its
// record in memory is the first of the QP's doorbell.
type recvQueue struct {
	lock lock
}

// open makes the queue in buf, which is zeros. count is a power of two. unlocked
// says that one goroutine uses it.
func (r *recvQueue) open(buf unsafe.Pointer, count, shift uint32, record *uint32, unlocked bool) {}

// reset empties the queue. The device does not use it then.
func (r *recvQueue) reset() {}
