// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"syscall"

	"purerdma/provider"
)

// Batch builds send requests directly in the send queue of a QP and posts them with one doorbell
// (ibv_wr_start(3), ibv_wr_complete(3)). It is the fastest way to send, and allocates nothing.
//
//	var b verbs.Batch
//	b.Reset(qp)
//	b.Write(1, mr.Slice(0, 4096), theirs.Slice(0, 4096), 0)
//	b.Send(2, mr.Slice(4096, 64), verbs.SendSignaled) // completes with a WC
//	err := b.Post()
//
// From the first request to Post or Discard, the batch holds the lock of the send queue. Other
// posts to the QP wait. In that time the goroutine must not post to the QP in another way, and must
// not sleep.
//
// The methods that add a request return no error. If one or more fail, Post posts nothing and
// returns the first error. Requests after it are not built.
//
// A Batch is for one goroutine. It must be Reset to a QP before its first request, may be reused
// after Post and Discard and Reset to another QP, and must not be copied.
type Batch struct {
	_    noCopy
	qp   *QP
	p    provider.QP
	held bool // the send queue is the batch's
	// next builds the next request. It is an idleBatch while the batch has none, rest
	// afterwards, and a failedBatch after an error. With the state in next, the methods that
	// make one call have no branch and are inlined.
	next  provider.Builder
	first provider.Builder // takes the send queue and builds the first request
	rest  provider.Builder // builds the other requests
	wr    SendWR           // a request on its way to BatchAdd
	sg    [1]SGE           // backs wr.SGList
}

// noCopy makes go vet find copies of the struct that has it as a field.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// errNoQP is the error of a Batch that was not Reset to a QP.
var errNoQP = fmt.Errorf("it was not Reset to a QP: %w", syscall.EINVAL)

// Reset discards the requests and makes the batch one for qp.
func (b *Batch) Reset(qp *QP) {
	b.Discard()
	b.qp, b.p = qp, qp.p
	b.next = (*idleBatch)(b)
	if p, ok := qp.p.(provider.BatchBuilder); ok && (qp.typ == RC || qp.typ == UC) {
		b.first, b.rest = p.First(), p
		return
	}
	b.first, b.rest = (*genericFirst)(b), (*genericBatch)(b)
}

// Send sends the bytes of local.
func (b *Batch) Send(id uint64, local SGE, flags SendFlags) {
	if err := b.next.BatchSend(id, local, flags); err != nil {
		b.next = failedBatch{err}
	}
}

// SendInline sends a copy of data, which may have QPCap.Inline bytes.
func (b *Batch) SendInline(id uint64, data []byte, flags SendFlags) {
	if err := b.next.BatchSendInline(id, data, flags); err != nil {
		b.next = failedBatch{err}
	}
}

// Write writes the bytes of local to the first bytes of remote. Like all methods with a
// RemoteMemory, it fails with ErrRemoteLength if remote is shorter than local.
func (b *Batch) Write(id uint64, local SGE, remote RemoteMemory, flags SendFlags) {
	if err := b.next.BatchWrite(id, local, remote, flags); err != nil {
		b.next = failedBatch{err}
	}
}

// WriteInline writes a copy of data, which may have QPCap.Inline bytes, to the first
// bytes of remote.
func (b *Batch) WriteInline(id uint64, data []byte, remote RemoteMemory, flags SendFlags) {
	if err := b.next.BatchWriteInline(id, data, remote, flags); err != nil {
		b.next = failedBatch{err}
	}
}

// Add adds any request, as QP.PostSend takes it: several elements, datagrams,
// memory windows, FLUSH. wr and its slices may be reused at once. A wr that is kept in a
// variable of long life costs no allocation.
func (b *Batch) Add(wr *SendWR) {
	b.begin()
	if b.failure() != nil {
		return
	}
	if err := b.p.BatchAdd(wr); err != nil {
		b.next = failedBatch{err}
	}
}

// Post posts the requests, all or nothing: after ErrFull, or any error of a request,
// nothing is posted. The batch is empty afterwards. Without requests it does nothing.
func (b *Batch) Post() error {
	if _, failed := b.next.(failedBatch); failed || !b.held {
		return b.postNothing()
	}
	b.held, b.next = false, (*idleBatch)(b)
	if err := b.p.BatchPost(); err != nil {
		return b.opError(err)
	}
	return nil
}

// postNothing is Post of an empty batch, or of one with an error.
func (b *Batch) postNothing() error {
	if b.qp == nil {
		return &OpError{Op: "post", Object: "batch", Err: errNoQP}
	}
	err := b.failure()
	b.Discard()
	return b.opError(err)
}

func (b *Batch) opError(err error) error {
	return b.qp.opError("post batch to", sized(err, "SendWR", b.qp.p.Cap().SendWR))
}

// Discard drops the requests and the error.
func (b *Batch) Discard() {
	if b.held {
		b.held, b.next = false, (*idleBatch)(b)
		b.p.BatchDiscard()
	}
}

// failure returns the first error of a request.
func (b *Batch) failure() error {
	f, _ := b.next.(failedBatch)
	return f.err
}

// failedBatch is a Batch after an error. It builds nothing.
type failedBatch struct{ err error }

func (failedBatch) BatchSend(uint64, SGE, SendFlags) error                         { return nil }
func (failedBatch) BatchSendInline(uint64, []byte, SendFlags) error                { return nil }
func (failedBatch) BatchWrite(uint64, SGE, RemoteMemory, SendFlags) error          { return nil }
func (failedBatch) BatchWriteInline(uint64, []byte, RemoteMemory, SendFlags) error { return nil }

// begin takes the send queue for the first request.
func (b *Batch) begin() {
	if !b.held {
		b.p.BatchBegin()
		b.held, b.next = true, b.rest
	}
}

// idleBatch is a Batch without requests. Adding the first request locks the send queue. The
// state changes before that, so that the arguments stay in registers.
type idleBatch Batch

func (b *idleBatch) BatchSend(id uint64, local SGE, flags SendFlags) error {
	b.held, b.next = true, b.rest
	return b.first.BatchSend(id, local, flags)
}

func (b *idleBatch) BatchSendInline(id uint64, data []byte, flags SendFlags) error {
	b.held, b.next = true, b.rest
	return b.first.BatchSendInline(id, data, flags)
}

func (b *idleBatch) BatchWrite(id uint64, local SGE, remote RemoteMemory, flags SendFlags) error {
	b.held, b.next = true, b.rest
	return b.first.BatchWrite(id, local, remote, flags)
}

func (b *idleBatch) BatchWriteInline(id uint64, data []byte, remote RemoteMemory, flags SendFlags) error {
	b.held, b.next = true, b.rest
	return b.first.BatchWriteInline(id, data, remote, flags)
}

// genericBatch is a Batch on a QP that is no BatchBuilder for its transport.
type genericBatch Batch

func (b *genericBatch) BatchSend(id uint64, local SGE, flags SendFlags) error {
	return b.p.BatchAdd((*Batch)(b).request(OpSend, id, local, RemoteMemory{}, flags))
}

func (b *genericBatch) BatchSendInline(id uint64, data []byte, flags SendFlags) error {
	return b.p.BatchAdd((*Batch)(b).inline(OpSend, id, data, RemoteMemory{}, flags))
}

func (b *genericBatch) BatchWrite(id uint64, local SGE, remote RemoteMemory, flags SendFlags) error {
	if uint64(local.Length) > remote.Length {
		return ErrRemoteLength
	}
	return b.p.BatchAdd((*Batch)(b).request(OpWrite, id, local, remote, flags))
}

func (b *genericBatch) BatchWriteInline(id uint64, data []byte, remote RemoteMemory, flags SendFlags) error {
	if uint64(len(data)) > remote.Length {
		return ErrRemoteLength
	}
	return b.p.BatchAdd((*Batch)(b).inline(OpWrite, id, data, remote, flags))
}

// genericFirst is the first of a genericBatch.
type genericFirst Batch

func (b *genericFirst) BatchSend(id uint64, local SGE, flags SendFlags) error {
	b.p.BatchBegin()
	return b.rest.BatchSend(id, local, flags)
}

func (b *genericFirst) BatchSendInline(id uint64, data []byte, flags SendFlags) error {
	b.p.BatchBegin()
	return b.rest.BatchSendInline(id, data, flags)
}

func (b *genericFirst) BatchWrite(id uint64, local SGE, remote RemoteMemory, flags SendFlags) error {
	b.p.BatchBegin()
	return b.rest.BatchWrite(id, local, remote, flags)
}

func (b *genericFirst) BatchWriteInline(id uint64, data []byte, remote RemoteMemory, flags SendFlags) error {
	b.p.BatchBegin()
	return b.rest.BatchWriteInline(id, data, remote, flags)
}
