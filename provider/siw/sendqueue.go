// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
	"purerdma/provider/internal/count"
	"purerdma/uverbs"
)

// sendQueue is an array of requests that the kernel empties. The kernel frees a slot as soon as it
// has started the request, long before that completes.
type sendQueue struct {
	cq        *cq
	signalAll bool
	maxSGE    int
	spare     uint32 // slots that stay empty

	mu        sync.Mutex // guards the slots and the fields below.
	slots     ring.Slots
	mapping   uverbs.Mapping
	put       uint32   // counts the built requests.
	published uint32   // counts the requests that the kernel may read
	words     []uint32 // the control words of the requests from published to put.
	ord       int      // limit of outstanding READs, -1 while unknown
	quiet     bool     // a READ that completes without a WC may be outstanding
	doorbells uint64
	counts    count.Sends // of the posted requests, and of an unfinished batch
}

// open maps the queue.
func (sq *sendQueue) open(f *uverbs.File, resp *abi.SiwUrespCreateQP, asked *provider.QPCap, maxSGE uint32) error {
	if err := checkSGE(maxSGE, asked.SendSGE); err != nil {
		return err
	}
	s, err := mapSlots(f, &sq.mapping, resp.SQKey, resp.NumSQE, withSpare(asked.SendWR), abi.Size[abi.SiwSQE](), 0)
	if err != nil {
		return err
	}
	sq.slots, sq.maxSGE = s, int(maxSGE)
	sq.ord = -1
	return nil
}

func (q *qp) PostSend(wrs []provider.SendWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.sq.mu.Lock()
	if err := q.sendable(); err != nil {
		q.sq.mu.Unlock()
		return 0, err
	}
	n := 0
	var err error
	for n < len(wrs) && err == nil {
		if err = q.build(&wrs[n]); err == nil {
			n++
		}
	}
	flushed, perr := q.publish()
	full := errors.Is(perr, provider.ErrFull)
	if !full {
		for i := range wrs[:n] {
			q.sq.count(&wrs[i])
		}
	}
	q.sq.mu.Unlock()
	if flushed {
		q.sq.cq.notify()
	}
	switch {
	case full:
		return 0, perr
	case perr != nil:
		return n, perr
	}
	return n, err
}

// sendable returns the reason why no send may be posted, or nil.
func (q *qp) sendable() error {
	if err := q.usable(); err != nil {
		return err
	}
	switch s := q.State(); s {
	case provider.QPRTS, provider.QPErr:
		return nil
	default:
		return &provider.QPStateError{State: s}
	}
}

// build writes one request into the next slot and advances. It does not write the word that passes
// the slot to the kernel. The caller holds the lock.
func (q *qp) build(wr *provider.SendWR) error {
	sq := &q.sq
	if sq.put-sq.published == uint32(sq.slots.Len())-sq.spare || wqeValid(sq.slots.LoadWord(sq.put+sq.spare)) {
		return provider.ErrFull
	}
	if err := q.check(wr); err != nil {
		return err
	}
	flags := uint16(abi.SIW_WQE_VALID)
	if sq.signalAll || wr.Flags&provider.SendSignaled != 0 {
		flags |= abi.SIW_WQE_SIGNALLED
	}
	if wr.Flags&provider.SendSolicited != 0 {
		flags |= abi.SIW_WQE_SOLICITED
	}
	read := wr.Opcode == provider.OpRead || wr.Opcode == provider.OpReadInv
	switch {
	case read:
		sq.quiet = sq.quiet || flags&abi.SIW_WQE_SIGNALLED == 0
	case wr.Flags&provider.SendFence != 0 || sq.quiet && flags&abi.SIW_WQE_SIGNALLED != 0:
		// siw completes a SEND or WRITE when it is sent, even if earlier READs have no response
		// yet. The fence makes its completion also confirm READs that have no completion of their
		// own.
		flags |= abi.SIW_WQE_READ_FENCE
		sq.quiet = false
	}
	sqe := ring.InSlot[abi.SiwSQE](&sq.slots, sq.put)
	sqe.ID = wr.ID
	sqe.RAddr, sqe.RKey = wr.RemoteAddr, wr.RKey
	var opcode uint8
	switch wr.Opcode {
	case provider.OpSend:
		opcode = abi.SIW_OP_SEND
	case provider.OpSendInv:
		opcode = abi.SIW_OP_SEND_REMOTE_INV
		sqe.RKey = wr.InvalidateRKey
	case provider.OpWrite:
		opcode = abi.SIW_OP_WRITE
	case provider.OpRead:
		opcode = abi.SIW_OP_READ
	case provider.OpReadInv:
		opcode = abi.SIW_OP_READ_LOCAL_INV
	}
	num := 0
	if n := len(wr.InlineData); n > 0 {
		// The data begins at the place of the second element.
		flags |= abi.SIW_WQE_INLINE
		num = 1
		sqe.SGE[0] = abi.SiwSGE{Length: uint32(n)}
		copy(ring.InSlot[inlineSlot](&sq.slots, sq.put).Data[:], wr.InlineData)
	} else if wr.InlineData == nil {
		num = putSGEs(sqe.SGE[:], wr.SGList)
		if num == 1 && !read {
			num = avoidShort(&sqe.SGE)
		}
	}
	if read {
		// A READ has one element, even if it is empty, because the kernel reads only that one.
		num = 1
		e := &wr.SGList[0]
		sqe.SGE[0] = abi.SiwSGE{LAddr: e.Addr, Length: e.Length, LKey: e.LKey}
	}
	sq.words = append(sq.words[:sq.put-sq.published], wqeWord(flags, uint8(num), opcode))
	sq.put++
	return nil
}

// siw copies a message of at most shortMessage bytes into the packet if it is one element (siw_try_1seg). That has two
// faults. While a post is in the kernel, siw copies by the address of the poster's process, also on its own thread,
// where the copy fails and ends the connection. And if the bytes cross the end of a page, siw takes as many bytes from
// the first page as there are in the second.
const (
	shortMessage = 32
	pageSize     = 4096 // the smallest there is
)

// avoidShort makes two elements of a short one, for which siw takes another path, and returns the number of elements. Only
// the second may be empty, because siw of Linux 6.1 oopses on an empty element before data.
func avoidShort(sg *[abi.SIW_MAX_SGE]abi.SiwSGE) int {
	e := &sg[0]
	if e.Length > shortMessage {
		return 1
	}
	first := uint32(pageSize - e.LAddr%pageSize)
	if first >= e.Length {
		first = 1
	}
	sg[1] = abi.SiwSGE{LAddr: e.LAddr + uint64(first), Length: e.Length - first, LKey: e.LKey}
	e.Length = first
	return 2
}

// inlineSlot is a slot of the send queue whose elements from the second on are
// inline data.
type inlineSlot struct {
	_    [40]byte
	Data [abi.SIW_MAX_INLINE]byte
}

// maxMessage is the longest message. siw counts its bytes in an int.
const maxMessage = 1<<31 - 1

// check refuses requests that siw would refuse only when it processes them. Then siw ends the
// connection, or the queue hangs.
func (q *qp) check(wr *provider.SendWR) error {
	inline := wr.InlineData != nil
	length := uint64(len(wr.InlineData))
	if !inline {
		if len(wr.SGList) > q.sq.maxSGE {
			return fmt.Errorf("%d scatter/gather elements, %d fit: %w", len(wr.SGList), q.sq.maxSGE, syscall.EINVAL)
		}
		for i := range wr.SGList {
			length += uint64(wr.SGList[i].Length)
		}
	} else if len(wr.InlineData) > abi.SIW_MAX_INLINE {
		return fmt.Errorf("%d bytes of inline data, %d fit: %w", len(wr.InlineData), abi.SIW_MAX_INLINE, syscall.EINVAL)
	}
	if length > maxMessage {
		return fmt.Errorf("message of %d bytes: %w", length, syscall.EMSGSIZE)
	}
	switch wr.Opcode {
	case provider.OpSend, provider.OpWrite:
		return nil
	case provider.OpSendInv:
		if inline {
			return fmt.Errorf("inline data in a SEND_WITH_INV: %w", syscall.EINVAL)
		}
		return nil
	case provider.OpRead, provider.OpReadInv:
		return q.checkRead(wr)
	case 0:
		return provider.ErrNoOpcode
	}
	return fmt.Errorf("%v on a QP of siw: %w", wr.Opcode, syscall.EOPNOTSUPP)
}

func (q *qp) checkRead(wr *provider.SendWR) error {
	switch {
	case wr.InlineData != nil:
		return fmt.Errorf("inline data in a READ: %w", syscall.EINVAL)
	case len(wr.SGList) != 1:
		return fmt.Errorf("%d scatter/gather elements in a READ, iWARP has one: %w", len(wr.SGList), syscall.EINVAL)
	case wr.Flags&provider.SendFence != 0:
		return fmt.Errorf("fence before a READ, which siw does not have: %w", syscall.EINVAL)
	}
	if q.sq.ord < 0 && q.State() == provider.QPRTS {
		// Once for a connection, because the two sides have agreed on the value.
		a, err := q.Query()
		if err != nil {
			return err
		}
		q.sq.ord = int(a.MaxRdAtomic)
	}
	if q.sq.ord == 0 {
		return provider.ErrNoReads
	}
	return nil
}

// publish passes the built requests to the kernel, and rings if the kernel may have stopped
// processing. In the error state it completes the built requests. The caller holds the lock. On
// provider.ErrFull it passed nothing to the kernel.
//
// The kernel takes the requests in order, and reads the next slot after each. If the slot before
// the first new one still belongs to the kernel, it has yet to read the new one. Its store into
// that slot and our store are full barriers, so one side finds the other's.
//
// The doorbell is rung under the lock because the kernel refuses it while the state of the QP
// changes.
func (q *qp) publish() (flushed bool, err error) {
	sq := &q.sq
	n := sq.put - sq.published
	if n == 0 {
		return false, nil
	}
	if q.State() == provider.QPErr {
		return q.flushBuilt()
	}
	first := sq.published
	for i, word := range sq.words[:n] {
		sq.slots.StoreWord(first+uint32(i), word)
	}
	sq.published = sq.put
	if n < uint32(sq.slots.Len()) && wqeValid(sq.slots.LoadWord(first-1)) {
		return false, nil
	}
	sq.doorbells++
	if err := q.bell.Ring(); !errors.Is(err, syscall.ENOTCONN) {
		return false, err
	}
	// The kernel has ended the connection, and the event is still to come. The new requests are
	// flushed with it.
	return false, nil
}

// flushBuilt completes the built requests as flushed.
func (q *qp) flushBuilt() (bool, error) {
	sq := &q.sq
	words := sq.words[:sq.put-sq.published]
	wcs := make([]provider.WC, len(words))
	for i, word := range words {
		wcs[i] = sq.flushedSend(q.num, sq.published+uint32(i), word)
	}
	sq.put = sq.published
	if err := sq.cq.flush(wcs, false); err != nil {
		return false, err
	}
	return true, nil
}

// flushedSend is the completion of the request in a slot.
func (sq *sendQueue) flushedSend(qp, slot, word uint32) provider.WC {
	wc := provider.WC{ID: ring.InSlot[abi.SiwSQE](&sq.slots, slot).ID, Status: provider.WCWRFlushErr, QPNum: qp}
	if op := wqeOpcode(word); int(op) < len(opcodes) {
		wc.Opcode = opcodes[op]
	}
	return wc
}

// sweep completes, as flushed, the requests that the kernel has left in the queue and will not
// process. The caller holds the lock.
func (sq *sendQueue) sweep(qp uint32) bool {
	var wcs []provider.WC
	for slot, word := range left(&sq.slots, sq.published) {
		wcs = append(wcs, sq.flushedSend(qp, slot, word))
		sq.slots.StoreWord(slot, 0)
	}
	if len(wcs) == 0 {
		return false
	}
	_ = sq.cq.flush(wcs, true) // cannot fail
	return true
}

func (q *qp) BatchBegin() {
	q.sq.mu.Lock()
	q.sq.counts.Begin()
}

func (q *qp) BatchAdd(wr *provider.SendWR) error {
	// A closed QP has no queue to build in.
	if err := q.usable(); err != nil {
		return err
	}
	if err := q.build(wr); err != nil {
		return err
	}
	q.sq.count(wr)
	return nil
}

func (q *qp) BatchPost() error {
	if err := q.sendable(); err != nil {
		q.BatchDiscard()
		return err
	}
	flushed, err := q.publish()
	if errors.Is(err, provider.ErrFull) {
		q.sq.counts.Discard()
	}
	q.sq.mu.Unlock()
	if flushed {
		q.sq.cq.notify()
	}
	return err
}

func (q *qp) BatchDiscard() {
	if q.sq.put != q.sq.published {
		q.sq.quiet = true // the discarded requests may include the fence
	}
	q.sq.put = q.sq.published
	q.sq.counts.Discard()
	q.sq.mu.Unlock()
}
