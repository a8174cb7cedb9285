// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// sendQueue is a ring of WQEs. Its fields are in the order in which a post touches
// them. Indices count up without end and are masked when they are used.
type sendQueue struct {
	lock    lock
	cur     uint32 // the block that the next WQE begins with
	mask    uint32 // blocks - 1
	head    uint32 // counts the requests posted
	tail    uint32 // counts those completed: stored by pollers, loaded atomically
	maxPost uint32 // requests that fit
	buf     unsafe.Pointer
	sent    unsafe.Pointer // the first of an array of sent, one for each block
	table   []sent         // the same
}

// sent is what a completion of the WQE that begins with a block brings back.
type sent struct {
	id   uint64
	head uint32 // the request's number
	umr  uint32 // provider.WCOpcode, of the requests that the device knows as UMR
}

// completed returns the ID of the request whose WQE has this index, and frees the
// places of all requests up to it. Pollers call it, one at a time.
func (q *sendQueue) completed(index uint16) uint64 {
	e := (*sent)(unsafe.Add(q.sent, uintptr(uint32(index)&q.mask)*unsafe.Sizeof(sent{})))
	id := e.id
	storeShared(&q.tail, e.head+1)
	return id
}

// umrOpcode says what a completed request of operation UMR was. It does not trust
// that the request was one.
func (q *sendQueue) umrOpcode(index uint16) provider.WCOpcode {
	e := (*sent)(unsafe.Add(q.sent, uintptr(uint32(index)&q.mask)*unsafe.Sizeof(sent{})))
	return provider.WCOpcode(e.umr)
}
