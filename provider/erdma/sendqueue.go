// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"net"
	"sync/atomic"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// sendQueue is a ring of requests, each of 1 to 4 blocks. Indices count up without end and are masked
// when they are used. The lock guards everything but tail and next.
type sendQueue struct {
	lock    spin.Lock
	ready   bool   // The QP's state lets requests be posted.
	held    bool   // The provider flushes the requests instead of the adapter (flush.go).
	atomics bool   // the adapter has them
	pi      uint32 // the block that the next request begins with
	mask    uint32 // blocks - 1
	head    uint32 // counts the posted requests. Pollers also load it
	maxPost uint32 // requests that fit
	buf     unsafe.Pointer
	pending *pendingWR // the first of mask+1
	heads   [8]uint64  // the first word of a request without its operation and size, by provider.SendFlags
	record  *uint64    // doorbell record
	bell    unsafe.Pointer
	num     uint64 // of the QP, as in a doorbell
	file    *uverbs.File
	batch   batch

	doorbells uint64             // counts the notifications of the adapter
	counts    [16]provider.Count // counts the built requests by provider.SendOpcode

	_    [64]byte // pollers write below
	tail uint32   // counts the completed requests. Guarded by the lock of the CQ, loaded by posters atomically
	next uint32   // the block that the oldest outstanding request begins with. Guarded by the lock of the CQ
}

// pendingWR holds the data that the completion of the request at a block needs.
type pendingWR struct {
	id     uint64
	head   uint32 // number of the request. Stored with spin.StoreRelease, because the adapter may name any block
	blocks uint32
}

// batch holds the requests that BatchAdd has built, up to block sendQueue.pi. A post or discard sets
// it for the next batch.
type batch struct {
	start uint32 // sendQueue.pi before the batch
	head  uint32 // sendQueue.head after the batch
}

// block returns a block of the ring.
func (s *sendQueue) block(i uint32) unsafe.Pointer {
	return unsafe.Add(s.buf, uintptr(i&s.mask)<<blockShift)
}

// entry returns the record of the request that begins with a block.
func (s *sendQueue) entry(i uint32) *pendingWR {
	return (*pendingWR)(unsafe.Add(unsafe.Pointer(s.pending), uintptr(i&s.mask)*unsafe.Sizeof(pendingWR{})))
}

// reset makes the queue one to which nothing was ever posted. The caller holds the locks of the queue
// and of the CQ.
func (s *sendQueue) reset() {
	s.pi, s.next = 0, 0
	spin.StoreRelease(&s.head, 0)
	spin.StoreRelease(&s.tail, 0)
	s.batch = batch{}
	for i := range s.mask + 1 {
		// No request in flight has this number.
		*s.entry(i) = pendingWR{head: ^uint32(0)}
	}
	*s.record = 0
}

// outstanding returns the record of the request that begins with a block, or nil if no outstanding
// request begins there. Pollers call it, one at a time.
func (s *sendQueue) outstanding(i uint32) *pendingWR {
	head, tail := atomic.LoadUint32(&s.head), s.tail
	if head == tail {
		return nil
	}
	e := s.entry(i)
	if atomic.LoadUint32(&e.head)-tail >= head-tail {
		return nil
	}
	return e
}

// free returns the blocks of all requests up to e to the posters. It is the result of outstanding for
// block i.
func (s *sendQueue) free(e *pendingWR, i uint32) {
	s.next = i + e.blocks
	spin.StoreRelease(&s.tail, e.head+1)
}

// PostSend posts the requests in order and rings once. It does not allocate.
func (q *qp) PostSend(wrs []provider.SendWR) (int, error) {
	s := &q.sq
	s.lock.Lock()
	if !s.ready || s.file.Closed() {
		s.lock.Unlock()
		return 0, q.notSending(len(wrs))
	}
	var err error
	if free := s.maxPost - (s.head - atomic.LoadUint32(&s.tail)); len(wrs) > int(free) {
		wrs, err = wrs[:free], provider.ErrFull
	}
	pi, n := s.pi, uint32(0)
	for i := range wrs {
		blocks := s.build(&wrs[i], pi, n)
		if blocks == 0 {
			err = s.refusal(&wrs[i])
			break
		}
		pi += blocks
		n++
	}
	if n == 0 {
		s.lock.Unlock()
		return 0, err
	}
	if s.held {
		return q.postHeld(pi, n, err)
	}
	// This is publish, which is too long to be inlined.
	head := s.head + n
	s.pi = pi
	s.batch = batch{start: pi, head: head}
	spin.StoreRelease(&s.head, head)
	s.doorbells++
	mmio.Doorbell(s.record, endian.Little64(s.num|uint64(uint16(pi))), s.bell, s.lock.Word())
	s.lock.Released()
	return int(n), err
}

// publish passes n requests, which end before block pi, to the adapter, and releases the lock.
func (s *sendQueue) publish(pi, n uint32) {
	s.pi = pi
	s.batch.start, s.batch.head = pi, s.head+n
	spin.StoreRelease(&s.head, s.batch.head)
	s.doorbells++
	mmio.Doorbell(s.record, endian.Little64(s.num|uint64(uint16(pi))), s.bell, s.lock.Word())
	s.lock.Released()
}

// notSending returns the reason why the queue takes no requests.
func (q *qp) notSending(n int) error {
	switch {
	case q.closed.Load() || q.sq.file.Closed():
		return net.ErrClosed
	case n == 0:
		return nil
	}
	return &provider.QPStateError{State: q.State()}
}

// BatchBegin takes the send queue for a batch.
func (q *qp) BatchBegin() { q.sq.lock.Lock() }

// BatchAdd builds one request, which the adapter does not see.
func (q *qp) BatchAdd(wr *provider.SendWR) error {
	s := &q.sq
	b := &s.batch
	if b.head-atomic.LoadUint32(&s.tail) >= s.maxPost {
		if q.closed.Load() {
			return net.ErrClosed
		}
		return provider.ErrFull
	}
	blocks := s.build(wr, s.pi, b.head-s.head)
	if blocks == 0 {
		return s.refusal(wr)
	}
	b.head++
	s.pi += blocks
	return nil
}

// BatchPost passes the built requests to the adapter.
func (q *qp) BatchPost() error {
	s := &q.sq
	n := s.batch.head - s.head
	if !s.ready || s.file.Closed() {
		q.BatchDiscard()
		return q.notSending(int(n))
	}
	if n == 0 {
		s.lock.Unlock()
		return nil
	}
	if s.held {
		_, err := q.postHeld(s.pi, n, nil)
		return err
	}
	s.publish(s.pi, n)
	return nil
}

// BatchDiscard drops the built requests.
func (q *qp) BatchDiscard() {
	q.sq.discard()
	q.sq.lock.Unlock()
}

// discard drops the built requests. The caller holds the lock.
func (s *sendQueue) discard() {
	for i := s.batch.start; i != s.pi; {
		e := s.entry(i)
		s.subtract(i)
		// Otherwise the block would name a request that is posted later, with the ID of this one.
		spin.StoreRelease(&e.head, s.head+1<<31)
		i += e.blocks
	}
	s.pi, s.batch.head = s.batch.start, s.head
}
