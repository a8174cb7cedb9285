// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
)

// recvQueue is the receive queue of a QP: count slots of 1<<shift bytes. Its
// record in memory is the first of the QP's doorbell.
type recvQueue struct {
	lock     lock
	unlocked bool
	mute     bool // keep the record as it is
	head     uint32
	bell     *uint32
}

// open makes the queue in buf, which is zeros. count is a power of two. unlocked
// says that one goroutine uses it.
func (r *recvQueue) open(buf unsafe.Pointer, count, shift uint32, record *uint32, unlocked bool) {
	r.bell, r.unlocked = record, unlocked
}

// reset empties the queue. The device does not use it then.
func (r *recvQueue) reset() { r.head = 0 }

// post posts receives. The caller holds the lock.
func (r *recvQueue) post(wrs []provider.RecvWR) (int, error) { return 0, provider.ErrFull }

// publish tells the device how far the queue is filled. The caller holds the lock.
func (r *recvQueue) publish() { mmio.Record(r.bell, be32(r.head&0xffff)) }
