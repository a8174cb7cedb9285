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

// recvQueue is a ring that the kernel empties.
type recvQueue struct {
	mu       sync.Mutex // beside the ring: everything below, and the ring's slots
	ring     ring.Ring
	mapping  *uverbs.Mapping
	producer uint32
}

func (q *qp) PostRecv(wrs []provider.RecvWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.rq.mu.Lock()
	if err := q.receivable(); err != nil {
		q.rq.mu.Unlock()
		return 0, err
	}
	var n int
	var err error
	for n = range wrs {
		if err = q.buildRecv(&wrs[n]); err != nil {
			break
		}
	}
	if err == nil {
		n = len(wrs)
	}
	flush := false
	if n > 0 {
		q.rq.ring.StoreProducer(q.rq.producer)
		flush = q.State() == provider.QPErr
	}
	q.rq.mu.Unlock()
	if flush {
		if ferr := q.flushRecv(); ferr != nil {
			return n, ferr
		}
	}
	return n, err
}

// flushRecv has the kernel flush what was posted in the error state. It looks at
// the receive queue when a message comes, and in that state none does; there is
// no doorbell (rxe does not take the POST_RECV command); but moving the QP to the
// state that it is in makes it look.
func (q *qp) flushRecv() error {
	attr := provider.QPAttr{State: provider.QPErr}
	return q.file.ModifyQP(provider.ModifyCommand(q.handle, &attr, provider.QPAttrState), uverbs.Driver{})
}

// receivable returns why no receive may be posted, or nil.
func (q *qp) receivable() error {
	if err := q.usable(); err != nil {
		return err
	}
	if s := q.State(); s == provider.QPReset {
		return errState(s)
	}
	return nil
}

// buildRecv writes one request into the next slot and moves on. The caller holds
// the lock.
func (q *qp) buildRecv(wr *provider.RecvWR) error {
	r := &q.rq.ring
	i := q.rq.producer
	next := r.Next(i)
	if next == r.LoadConsumer() {
		return provider.ErrFull
	}
	sg := wr.SGList
	if len(sg) > q.cap.RecvSGE {
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", len(sg), q.cap.RecvSGE, syscall.EINVAL)
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
	q.rq.producer = next
	return nil
}
