// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"net"
	"sync/atomic"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// recvQueue is a ring of receives of equal size, which the adapter takes in order.
type recvQueue struct {
	lock    spin.Lock // guards everything but tail and next
	ready   bool      // the QP's state lets receives be posted
	buf     unsafe.Pointer
	ids     unsafe.Pointer // the ID of each receive, 64 bits
	entries uint32
	size    uint32 // bytes of a receive
	max     uint32 // receives that fit. 0 if the QP has no queue of its own
	maxSGE  int
	index   uint32 // of the next receive
	epoch   uint64 // bellEpoch in every second pass around the ring. It goes on after a reset, as in libbnxt_re
	head    uint32 // counts the posted receives. Pollers also load it
	num     uint64 // doorbell without its index
	ring    ringer
	posted  uint64 // counts the receives since the queue was made

	_    [64]byte // pollers write below
	tail uint32   // counts the completed receives. Guarded by the lock of the CQ, loaded by posters atomically
	next uint32   // index of the oldest receive. Guarded by the lock of the CQ
}

// id returns the place of the ID of a receive.
func (r *recvQueue) id(i uint32) *uint64 { return (*uint64)(unsafe.Add(r.ids, uintptr(i)*8)) }

// reset makes the queue one to which nothing was ever posted. The caller holds the locks of the queue and of the CQ.
func (r *recvQueue) reset() {
	r.index, r.next = 0, 0
	spin.StoreRelease(&r.head, 0)
	spin.StoreRelease(&r.tail, 0)
}

// complete removes the oldest receive and returns its ID. The adapter completes the receives of a QP in order, so that
// index must be the oldest one's. The caller holds the lock of the CQ.
func (r *recvQueue) complete(index uint32) (id uint64, ok bool) {
	if index != r.next || atomic.LoadUint32(&r.head) == r.tail {
		return 0, false
	}
	id = *r.id(index)
	r.free()
	return id, true
}

// free removes the oldest receive. The caller holds the lock of the CQ.
func (r *recvQueue) free() {
	if r.next++; r.next == r.entries {
		r.next = 0
	}
	spin.StoreRelease(&r.tail, r.tail+1)
}

// PostRecv posts receives in order and rings once. It does not allocate.
func (q *qp) PostRecv(wrs []provider.RecvWR) (int, error) {
	r := &q.rq
	r.lock.Lock()
	if !r.ready || q.sq.file.Closed() {
		r.lock.Unlock()
		return 0, q.notReceiving()
	}
	n, free := 0, int(r.max-(r.head-atomic.LoadUint32(&r.tail)))
	var err error
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
	if n == 0 {
		r.lock.Unlock()
		return 0, err
	}
	stopped := q.stopped.Load()
	r.posted += uint64(n)
	spin.StoreRelease(&r.head, r.head+uint32(n))
	if r.ring.pacing.active() {
		r.ring.pacing.wait()
	}
	mmio.Doorbell(&r.ring.last, endian.Little64(r.num|r.epoch|uint64(r.index)), r.ring.register, r.lock.Word())
	r.lock.Released()
	if stopped {
		q.recvCQ.notify()
	}
	return n, err
}

// post builds one receive. The adapter needs at least one element, so that a receive without any has one of length 0.
func (r *recvQueue) post(wr *provider.RecvWR) error {
	sg := wr.SGList
	p := unsafe.Add(r.buf, uintptr(r.index)*uintptr(r.size))
	if len(sg) != 1 || r.maxSGE < 1 || sg[0].Length > maxMessage {
		if err := checkElements(sg, r.maxSGE); err != nil {
			return err
		}
		if len(sg) == 0 {
			put32(p, headerSlots*slotSize+sgeLength, 0)
		}
	}
	for i := range sg {
		putSGE(unsafe.Add(p, (headerSlots+i)<<slotShift), sg[i].Addr, sg[i].Length, sg[i].LKey)
	}
	put32(p, 0, opReceive|uint32(headerSlots+max(len(sg), 1))<<headSlots)
	put32(p, rqeIndex, r.index)
	*r.id(r.index) = wr.ID
	if r.index++; r.index == r.entries {
		r.index = 0
		r.epoch ^= bellEpoch
	}
	return nil
}

// notReceiving returns the reason why the queue takes no receives.
func (q *qp) notReceiving() error {
	switch {
	case q.closed.Load() || q.sq.file.Closed():
		return net.ErrClosed
	case q.rq.max == 0:
		return errNoQueue
	}
	return &provider.QPStateError{State: q.State()}
}
