// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"fmt"
	"iter"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// recvQueue is the array of receives of a QP or of an SRQ. The kernel empties it.
type recvQueue struct {
	cq *cq // nil for an SRQ

	mu      sync.Mutex // guards the slots and the fields below
	slots   ring.Slots
	mapping uverbs.Mapping // not open if there is no such queue
	put     uint32         // counts the receives posted
	maxSGE  int
	spare   uint32 // slots that stay empty: none of an SRQ, which is not flushed
	posted  uint64 // counts the receives, including receives that were flushed at once
}

// open maps the queue.
func (rq *recvQueue) open(f *uverbs.File, key uint64, n, want, maxSGE uint32, wantSGE int) error {
	if err := checkSGE(maxSGE, wantSGE); err != nil {
		return err
	}
	s, err := mapSlots(f, &rq.mapping, key, n, want, abi.Size[abi.SiwRQE](), 0)
	if err != nil {
		return err
	}
	rq.slots, rq.maxSGE = s, int(maxSGE)
	return nil
}

var errNoRecvQueue = fmt.Errorf("the QP has no receive queue of its own: %w", syscall.EINVAL)

func (q *qp) PostRecv(wrs []provider.RecvWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.rq.mu.Lock()
	n, err := 0, q.receivable()
	flush := err == nil && q.State() == provider.QPErr
	if err == nil {
		for n < len(wrs) && err == nil {
			if err = q.postRecv(&wrs[n], flush); err == nil {
				n++
			}
		}
	}
	q.rq.posted += uint64(n)
	q.rq.mu.Unlock()
	if flush && n > 0 {
		q.rq.cq.notify()
	}
	return n, err
}

// receivable returns the reason why no receive may be posted, or nil. The caller holds the lock.
func (q *qp) receivable() error {
	if err := q.usable(); err != nil {
		return err
	}
	if q.rq.mapping.Bytes() == nil {
		return errNoRecvQueue
	}
	switch s := q.State(); s {
	case provider.QPInit, provider.QPRTR, provider.QPRTS, provider.QPErr:
		return nil
	default:
		return &provider.QPStateError{State: s}
	}
}

// postRecv posts one receive, or with flush completes it at once.
func (q *qp) postRecv(wr *provider.RecvWR, flush bool) error {
	if !flush {
		return q.rq.post(wr)
	}
	if err := q.rq.check(wr); err != nil {
		return err
	}
	return q.rq.cq.flush([]provider.WC{flushedRecv(q.num, wr.ID)}, false)
}

func flushedRecv(qp uint32, id uint64) provider.WC {
	return provider.WC{ID: id, Status: provider.WCWRFlushErr, Opcode: provider.WCRecv, QPNum: qp}
}

func (rq *recvQueue) check(wr *provider.RecvWR) error {
	if len(wr.SGList) > rq.maxSGE {
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", len(wr.SGList), rq.maxSGE, syscall.EINVAL)
	}
	var length uint64
	for i := range wr.SGList {
		length += uint64(wr.SGList[i].Length)
	}
	if length > 1<<32-1 {
		return fmt.Errorf("receive of %d bytes: %w", length, syscall.EMSGSIZE)
	}
	return nil
}

// post fills the next slot. The caller holds the lock.
func (rq *recvQueue) post(wr *provider.RecvWR) error {
	if wqeValid(rq.slots.LoadWord(rq.put + rq.spare)) {
		return provider.ErrFull
	}
	if err := rq.check(wr); err != nil {
		return err
	}
	rqe := ring.InSlot[abi.SiwRQE](&rq.slots, rq.put)
	rqe.ID = wr.ID
	num := putSGEs(rqe.SGE[:], wr.SGList)
	// The kernel uses no other flag here.
	rq.slots.StoreWord(rq.put, wqeWord(abi.SIW_WQE_VALID, uint8(num), 0))
	rq.put++
	return nil
}

// sweep completes, as flushed, the requests that the kernel has left in the queue and will not
// process. The caller holds the lock.
func (rq *recvQueue) sweep(qp uint32) bool {
	if rq.mapping.Bytes() == nil {
		return false
	}
	var wcs []provider.WC
	for slot := range left(&rq.slots, rq.put) {
		wcs = append(wcs, flushedRecv(qp, ring.InSlot[abi.SiwRQE](&rq.slots, slot).ID))
		rq.slots.StoreWord(slot, 0)
	}
	if len(wcs) == 0 {
		return false
	}
	_ = rq.cq.flush(wcs, true) // cannot fail
	return true
}

// left returns the slots before put that belong to the kernel, oldest first, with their words. They
// need not be contiguous, because the kernel can lose several requests of a queue that has no empty
// slot (spareSlots), and it stops at the first of them.
func left(s *ring.Slots, put uint32) iter.Seq2[uint32, uint32] {
	return func(yield func(slot, word uint32) bool) {
		for slot := put - uint32(s.Len()); slot != put; slot++ {
			if word := s.LoadWord(slot); wqeValid(word) && !yield(slot, word) {
				return
			}
		}
	}
}

// putSGEs stores the elements that are not empty and returns their number. siw of Linux 6.1
// dereferences nil when it sends an empty one.
func putSGEs(dst []abi.SiwSGE, sg []provider.SGE) int {
	n := 0
	for i := range sg {
		if sg[i].Length > 0 {
			dst[n] = abi.SiwSGE{LAddr: sg[i].Addr, Length: sg[i].Length, LKey: sg[i].LKey}
			n++
		}
	}
	return n
}
