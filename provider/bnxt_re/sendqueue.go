// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// sendQueue is a ring of requests. A request has a number of slots that is fixed, or depends on the request. The lock
// guards everything but tail and next.
type sendQueue struct {
	lock     spin.Lock
	ready    bool     // The QP's state lets requests be posted.
	variable bool     // requests have a variable size
	at       position // of the next request
	head     uint32   // counts the posted requests. Pollers also load it
	built    uint32   // counts the requests that a batch has built in addition
	maxPost  uint32   // requests that fit
	buf      unsafe.Pointer
	pending  unsafe.Pointer // the first of entries pendingWRs
	entries  uint32
	depth    uint32    // slots of the ring
	most     uint32    // slots of the largest request
	heads    [8]uint32 // bits of a request's first word by provider.SendFlags
	num      uint64    // doorbell without its index
	pushed   uint32    // requests of the batch that are to be pushed
	ops      *[16]operation
	search   search
	posted   position // at, without the batch
	ring     ringer
	push     *pushBuffer // or nil
	file     *uverbs.File
	bounce   []byte // a request that wraps is built here. nil if none wraps
	maxSGE   int
	maxData  uint32 // bytes of inline data

	atomics   bool
	stall     uint32 // requests until a UD queue of a P4 chip stalls. 0 if it does not
	unstalled uint32 // requests since the last move that prevents it
	unstall   func()

	doorbells uint64             // counts the notifications of the adapter
	counts    [16]provider.Count // counts the built requests by provider.SendOpcode

	_    [64]byte // pollers write below
	tail uint32   // counts the completed requests. Guarded by the lock of the CQ, loaded by posters atomically
	next uint32   // index of the oldest outstanding request. Guarded by the lock of the CQ
}

// position is a place in a send queue.
type position struct {
	index uint32 // of the request in sendQueue.pending
	slot  uint32
	epoch uint64 // bellEpoch in every second pass around the ring
	psn   uint32 // number of the first packet. The lower 24 bits count
	msn   uint32 // place in the search table
}

// pendingWR holds the data that the completion of a request needs.
type pendingWR struct {
	id       uint64
	length   uint32 // bytes of the message
	slot     uint32 // the first one
	slots    uint8
	op       uint8 // provider.SendOpcode
	signaled bool
	pushed   bool
}

// entry returns the record of the request with an index, which is less than s.entries.
func (s *sendQueue) entry(i uint32) *pendingWR {
	return (*pendingWR)(unsafe.Add(s.pending, uintptr(i)*unsafe.Sizeof(pendingWR{})))
}

// reset makes the queue one to which nothing was ever posted. Like in libbnxt_re, the epoch and the place in the table
// of messages go on. The caller holds the locks of the queue and of the CQ.
func (s *sendQueue) reset() {
	s.at.index, s.at.slot, s.next, s.built, s.pushed = 0, 0, 0, 0, 0
	s.posted = s.at
	spin.StoreRelease(&s.head, 0)
	spin.StoreRelease(&s.tail, 0)
}

// bell returns the doorbell for a position.
func (s *sendQueue) bell(p *position) uint64 { return s.num | p.epoch | uint64(s.bellIndex(p)) }

// bellIndex returns the index of a position in doorbells and in the search table.
func (s *sendQueue) bellIndex(p *position) uint32 {
	if s.variable {
		return p.slot
	}
	return p.index
}

// free returns the number of requests that can be built.
func (s *sendQueue) free() uint32 {
	return s.maxPost - (s.head + s.built - atomic.LoadUint32(&s.tail))
}

// PostSend posts the requests in order and rings once, and once more for each pushed request. It does not allocate.
func (q *qp) PostSend(wrs []provider.SendWR) (int, error) {
	s := &q.sq
	s.lock.Lock()
	if !s.ready || s.file.Closed() {
		s.lock.Unlock()
		return 0, q.notSending(len(wrs))
	}
	var err error
	if free := s.free(); len(wrs) > int(free) {
		wrs, err = wrs[:free], provider.ErrFull
	}
	n := uint32(0)
	for i := range wrs {
		if !s.build(&wrs[i]) {
			err = s.check(&wrs[i])
			break
		}
		n++
	}
	if n == 0 {
		s.lock.Unlock()
		return 0, err
	}
	q.publish(n)
	return int(n), err
}

// publish passes n built requests to the adapter, and releases the lock.
func (q *qp) publish(n uint32) {
	s := &q.sq
	stopped := q.stopped.Load()
	s.built = 0
	spin.StoreRelease(&s.head, s.head+n)
	s.doorbells++
	if s.pushed|s.stall != 0 || s.ring.pacing.active() {
		s.publishSlowly(n)
	} else {
		s.posted = s.at
		mmio.Doorbell(&s.ring.last, endian.Little64(s.bell(&s.at)), s.ring.register, s.lock.Word())
		s.lock.Released()
	}
	if stopped {
		q.sendCQ.notify()
	}
}

// publishSlowly is the end of publish for requests that are pushed, for paced doorbells, and for queues that stall.
//
//go:noinline
func (s *sendQueue) publishSlowly(n uint32) {
	if s.stall != 0 {
		if s.unstalled += n; s.unstalled >= s.stall {
			s.unstalled = 0
			s.unstall()
		}
	}
	ring := true
	if s.pushed != 0 {
		ring = s.pushAll(n)
	}
	s.posted, s.pushed = s.at, 0
	if ring {
		s.ring.ring(s.bell(&s.at))
	}
	s.lock.Unlock()
}

// pushAll pushes the n last requests that are to be pushed. It reports whether there is a request behind the last of
// these. The doorbell of a pushed request passes on all requests before it.
func (s *sendQueue) pushAll(n uint32) (ring bool) {
	i := s.posted.index
	for range n {
		e := s.entry(i)
		from, to := i, i+1
		if to == s.entries {
			to = 0
		}
		i = to
		if ring = !e.pushed; ring {
			continue
		}
		if s.variable {
			if from, to = e.slot, e.slot+uint32(e.slots); to >= s.depth {
				to -= s.depth
			}
		}
		if s.ring.pacing.active() {
			s.ring.pacing.wait()
		}
		s.push.push(s.slotAt(e.slot), s.depth-e.slot, s.buf, uint32(e.slots), from, to)
	}
	return ring
}

// slotAt returns a slot of the ring.
func (s *sendQueue) slotAt(i uint32) unsafe.Pointer {
	return unsafe.Add(s.buf, uintptr(i)<<slotShift)
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
	if s.free() == 0 {
		if q.closed.Load() {
			return net.ErrClosed
		}
		return provider.ErrFull
	}
	if !s.build(wr) {
		return s.check(wr)
	}
	s.built++
	return nil
}

// BatchPost passes the built requests to the adapter.
func (q *qp) BatchPost() error {
	s := &q.sq
	n := s.built
	if !s.ready || s.file.Closed() {
		q.BatchDiscard()
		return q.notSending(int(n))
	}
	if n == 0 {
		s.lock.Unlock()
		return nil
	}
	q.publish(n)
	return nil
}

// BatchDiscard drops the built requests.
func (q *qp) BatchDiscard() {
	s := &q.sq
	for i := s.posted.index; i != s.at.index; {
		e := s.entry(i)
		c := &s.counts[e.op]
		c.Operations--
		c.Bytes -= uint64(e.length)
		if i++; i == s.entries {
			i = 0
		}
	}
	s.at, s.built, s.pushed = s.posted, 0, 0
	s.lock.Unlock()
}

// errNoQueue is the cause of a refused post to a queue that the QP does not have.
var errNoQueue = errors.Join(errors.New("the QP has no queue of its own"), syscall.EINVAL)
