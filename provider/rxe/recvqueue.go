// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/uverbs"
)

// recvHeader is the size of a receive WQE before its elements.
const recvHeader = 40

// recvQueue is the ring of a QP or of an SRQ. The kernel empties it.
type recvQueue struct {
	mu       sync.Mutex // guards the ring, its slots and the fields below
	ring     ring.Ring
	mapping  *uverbs.Mapping // nil if the QP has an SRQ in its place
	first    uverbs.Mapping  // the mapping of a queue that was not resized
	producer uint32
	maxSGE   int
	posted   uint64 // counts the receives
}

// open maps the queue.
func (rq *recvQueue) open(f *uverbs.File, mi abi.RxeMminfo, maxSGE int) error {
	m := &rq.first
	if rq.mapping != nil {
		m = new(uverbs.Mapping) // the caller closes the old one
	}
	r, err := mapQueue(f, m, mi, recvHeader+maxSGE*abi.Size[abi.RxeSGE]())
	if err != nil {
		return err
	}
	rq.mapping, rq.ring, rq.maxSGE = m, r, maxSGE
	rq.producer = r.LoadProducer()
	return nil
}

// post builds the requests in order and publishes the built ones. It returns their number, and the
// error of the next one. The caller holds the lock.
func (rq *recvQueue) post(wrs []provider.RecvWR) (int, error) {
	n := 0
	var err error
	for n < len(wrs) {
		if err = rq.build(&wrs[n]); err != nil {
			break
		}
		n++
	}
	rq.posted += uint64(n)
	if n > 0 {
		rq.ring.StoreProducer(rq.producer)
	}
	return n, err
}

// build writes one request into the next slot and advances. The caller holds the lock.
func (rq *recvQueue) build(wr *provider.RecvWR) error {
	r := &rq.ring
	i := rq.producer
	next := r.Next(i)
	if next == r.LoadConsumer() {
		return provider.ErrFull
	}
	sg := wr.SGList
	if len(sg) > rq.maxSGE {
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", len(sg), rq.maxSGE, syscall.EINVAL)
	}
	var length uint64
	for k := range sg {
		length += uint64(sg[k].Length)
	}
	if length > 1<<32-1 {
		return fmt.Errorf("receive of %d bytes: %w", length, syscall.EMSGSIZE)
	}
	wqe := ring.At[abi.RxeRecvWQE](r, i)
	*wqe = abi.RxeRecvWQE{WRID: wr.ID}
	wqe.DMA.Length, wqe.DMA.Resid = uint32(length), uint32(length)
	wqe.DMA.NumSGE = uint32(len(sg))
	putSGEs(ring.Tail[abi.RxeSGE](r, i, recvHeader, len(sg)), sg)
	rq.producer = next
	return nil
}

func (q *qp) PostRecv(wrs []provider.RecvWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if err := q.receivable(); err != nil {
		return 0, err
	}
	n, err := q.rq.post(wrs)
	if n > 0 && q.State() == provider.QPErr {
		if ferr := q.flushRecv(); ferr != nil {
			return n, ferr
		}
	}
	return n, err
}

// flushRecv makes the kernel flush the receives that were posted in the error state. The kernel
// checks the receive queue when a message arrives, and in that state none does. There is no
// doorbell either, because rxe does not take the POST_RECV command. But moving the QP to its
// current state makes the kernel check the queue. The caller holds rq.mu.
func (q *qp) flushRecv() error {
	attr := provider.QPAttr{State: provider.QPErr}
	cmd := provider.ModifyCommand(q.handle, &attr, provider.QPAttrState)
	return q.file.ModifyQP(&cmd)
}

// receivable returns the reason why no receive may be posted, or nil.
func (q *qp) receivable() error {
	if err := q.usable(); err != nil {
		return err
	}
	if q.srq {
		return fmt.Errorf("QP with a shared receive queue has none of its own: %w", syscall.EINVAL)
	}
	if s := q.State(); s == provider.QPReset {
		return &provider.QPStateError{State: s}
	}
	return nil
}
