// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// recvQueue is a ring of receives of at most one element. The adapter empties it in order. Each
// receive has a doorbell of its own, as in liberdma and in the kernel's driver.
type recvQueue struct {
	lock   spin.Lock // guards everything but tail.
	ready  bool      // the QP's state lets receives be posted
	held   bool      // the adapter does not get the receives, which the provider flushes (flush.go)
	buf    unsafe.Pointer
	ids    unsafe.Pointer // the ID of each slot's receive, 64 bits
	mask   uint32         // slots - 1
	max    uint32         // receives that fit
	head   uint32         // counts the posted receives. Pollers also load it
	unused uint32         // takes the store that releases a lock elsewhere
	num    uint64         // of the QP, as in a doorbell
	record *uint64        // doorbell record
	bell   unsafe.Pointer
	posted uint64 // counts the receives since the queue was made

	_    [64]byte // pollers write below
	tail uint32   // counts the completed receives. Guarded by the lock of the CQ, loaded by posters atomically
}

// slot returns a slot of the ring.
func (r *recvQueue) slot(i uint32) unsafe.Pointer {
	return unsafe.Add(r.buf, uintptr(i&r.mask)<<blockShift)
}

// id returns the ID of the receive in a slot.
func (r *recvQueue) id(i uint32) uint64 { return *(*uint64)(unsafe.Add(r.ids, uintptr(i&r.mask)*8)) }

// reset makes the queue one to which nothing was ever posted. The caller holds the locks of the queue
// and of the CQ.
func (r *recvQueue) reset() {
	spin.StoreRelease(&r.head, 0)
	spin.StoreRelease(&r.tail, 0)
	*r.record = 0
}

// outstanding reports whether an entry has the number of the oldest outstanding receive. The
// adapter completes the receives of a QP in order. The bits beyond the size of the queue do not count,
// as in liberdma. The caller holds the lock of the CQ.
func (r *recvQueue) outstanding(i uint32) bool {
	return (i-r.tail)&r.mask == 0 && atomic.LoadUint32(&r.head) != r.tail
}

// free returns the slot of the oldest receive to the posters. The caller holds the lock of the CQ.
func (r *recvQueue) free() { spin.StoreRelease(&r.tail, r.tail+1) }

// PostRecv posts receives in order. It does not allocate.
func (q *qp) PostRecv(wrs []provider.RecvWR) (int, error) {
	r := &q.rq
	r.lock.Lock()
	if !r.ready || q.sq.file.Closed() {
		r.lock.Unlock()
		return 0, q.notReceiving()
	}
	held := r.held
	if held && q.recvCQ.overfull() {
		r.lock.Unlock()
		return 0, provider.ErrFull
	}
	n := 0
	var err error
	free := int(r.max - (r.head - atomic.LoadUint32(&r.tail)))
	for n < len(wrs) {
		if n == free {
			err = provider.ErrFull
			break
		}
		if err = r.post(&wrs[n]); err != nil {
			break
		}
		n++
	}
	r.posted += uint64(n)
	r.lock.Unlock()
	if held && n > 0 {
		q.recvCQ.flushPosted(q)
	}
	return n, err
}

// post builds one receive and rings. The head is stored first, because the adapter may complete the
// receive at once.
func (r *recvQueue) post(wr *provider.RecvWR) error {
	sg := wr.SGList
	if len(sg) > maxRecvSGE {
		return fmt.Errorf("%d scatter/gather elements, %d fits: %w", len(sg), maxRecvSGE, syscall.EINVAL)
	}
	p := r.slot(r.head)
	if len(sg) == 0 {
		put32(p, rqeLength, 0)
	} else {
		putSGE(unsafe.Add(p, rqeAddr), sg[0].Addr, sg[0].Length, sg[0].LKey)
	}
	*(*uint64)(unsafe.Add(r.ids, uintptr(r.head&r.mask)*8)) = wr.ID
	word := r.num | uint64(uint16(r.head+1))
	put64(p, rqeHead, word)
	spin.StoreRelease(&r.head, r.head+1)
	if !r.held {
		r.ring(word)
	}
	return nil
}

// ring passes the receive that has the first word to the adapter.
func (r *recvQueue) ring(word uint64) {
	mmio.Doorbell(r.record, endian.Little64(word), r.bell, &r.unused)
}

// notReceiving returns the reason why the queue takes no receives.
func (q *qp) notReceiving() error {
	if q.closed.Load() || q.sq.file.Closed() {
		return net.ErrClosed
	}
	return &provider.QPStateError{State: q.State()}
}
