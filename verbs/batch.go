// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"syscall"

	"purerdma/provider"
)

// Batch builds send work requests straight in the send queue of a QP and posts
// them with one doorbell: the fastest way to send, without allocations.
//
//	var b verbs.Batch
//	b.Reset(qp)
//	b.Write(1, mr.Slice(0, 4096), peerAddr, peerRKey)
//	b.Send(2, mr.Slice(4096, 64))
//	b.Signal() // this last one completes with a WC
//	err := b.Post()
//
// From the first request to Post or Discard the batch holds the send queue:
// other posts to the QP wait, so do not post to it otherwise meanwhile, and do
// not sleep. An error sticks: what follows it does nothing, and Post returns it
// and posts nothing.
//
// A Batch is for one goroutine. It may be reused after Post and Discard, and
// Reset to another QP.
type Batch struct {
	qp   *QP
	p    provider.QP
	fast provider.Builder // p, if it is one for the QP's transport
	err  error
	n    int  // requests since Reset, Post or Discard
	held bool // the send queue is ours
	// wr is the last request, not yet built: Signal and the like may change it.
	wr      SendWR
	pending bool
	parts   bool   // fast builds it, of some fields of wr, and of one
	one     SGE    // in place of wr.SGList, if there is no inline data
	sg      []SGE  // backs wr.SGList
	inline  []byte // backs wr.InlineData
}

// errNoQP is the error of a Batch that was not Reset to a QP.
var errNoQP = fmt.Errorf("it was not Reset to a QP: %w", syscall.EINVAL)

// Reset discards what was built and makes the batch one for qp.
func (b *Batch) Reset(qp *QP) {
	b.Discard()
	b.qp, b.p, b.fast = qp, qp.p, nil
	if qp.typ == RC || qp.typ == UC {
		b.fast, _ = qp.p.(provider.Builder)
	}
}

// Len returns how many requests the batch was given, also those that do not fit, which
// Post is to say.
func (b *Batch) Len() int { return b.n }

// next builds the last request and returns the next one, empty.
func (b *Batch) next(op SendOpcode, id uint64) *SendWR {
	wr := b.nextOf(op, id)
	b.parts = false
	wr.SGList, wr.InlineData, wr.AH, wr.Bind = nil, nil, nil, nil
	return wr
}

// nextOf is next for a request that fast builds.
func (b *Batch) nextOf(op SendOpcode, id uint64) *SendWR {
	if b.pending {
		b.flush()
	}
	b.n++
	b.pending, b.parts = true, true
	wr := &b.wr
	wr.ID, wr.Opcode, wr.Flags = id, op, 0
	return wr
}

// flush builds the last request.
func (b *Batch) flush() {
	if !b.pending {
		return
	}
	b.pending = false
	if b.err != nil {
		return
	}
	if b.p == nil {
		b.err = errNoQP
		return
	}
	if !b.held {
		b.p.BatchBegin()
		b.held = true
	}
	wr := &b.wr
	switch {
	case !b.parts:
		b.err = b.p.BatchAdd(wr)
	case wr.Opcode == OpWrite && wr.InlineData == nil:
		b.err = b.fast.BatchWrite(wr.ID, wr.Flags, b.one, wr.RemoteAddr, wr.RKey)
	case wr.Opcode == OpWrite:
		b.err = b.fast.BatchWriteInline(wr.ID, wr.Flags, wr.InlineData, wr.RemoteAddr, wr.RKey)
	case wr.InlineData == nil:
		b.err = b.fast.BatchSend(wr.ID, wr.Flags, b.one)
	default:
		b.err = b.fast.BatchSendInline(wr.ID, wr.Flags, wr.InlineData)
	}
}

func (b *Batch) gather(wr *SendWR, sg []SGE) {
	b.sg = append(b.sg[:0], sg...)
	wr.SGList = b.sg
}

func (b *Batch) copyInline(wr *SendWR, data []byte) {
	b.inline = append(b.inline[:0], data...)
	if wr.InlineData = b.inline; b.inline == nil {
		wr.InlineData = []byte{}
	}
}

// Send sends the bytes of sg.
func (b *Batch) Send(id uint64, sg ...SGE) {
	if b.fast == nil || len(sg) != 1 {
		b.gather(b.next(OpSend, id), sg)
		return
	}
	b.nextOf(OpSend, id).InlineData = nil
	b.one = sg[0]
}

// SendInline sends a copy of data.
func (b *Batch) SendInline(id uint64, data []byte) { b.copyInline(b.inlineWR(OpSend, id), data) }

// inlineWR returns the next request, which is to have inline data only.
func (b *Batch) inlineWR(op SendOpcode, id uint64) *SendWR {
	if b.fast == nil {
		return b.next(op, id)
	}
	return b.nextOf(op, id)
}

// SendImm sends the bytes of sg and a number, see SendWR.ImmData.
func (b *Batch) SendImm(id uint64, imm uint32, sg ...SGE) {
	wr := b.next(OpSendImm, id)
	wr.ImmData = imm
	b.gather(wr, sg)
}

// SendInv sends the bytes of sg and invalidates a key of the peer.
func (b *Batch) SendInv(id uint64, rkey uint32, sg ...SGE) {
	wr := b.next(OpSendInv, id)
	wr.InvalidateRKey = rkey
	b.gather(wr, sg)
}

// Write writes the bytes of local to the peer's memory.
func (b *Batch) Write(id uint64, local SGE, remote uint64, rkey uint32) {
	if b.fast == nil {
		b.remote(OpWrite, id, local, remote, rkey)
		return
	}
	wr := b.nextOf(OpWrite, id)
	wr.InlineData, wr.RemoteAddr, wr.RKey = nil, remote, rkey
	b.one = local
}

// WriteInline writes a copy of data to the peer's memory.
func (b *Batch) WriteInline(id uint64, data []byte, remote uint64, rkey uint32) {
	wr := b.inlineWR(OpWrite, id)
	wr.RemoteAddr, wr.RKey = remote, rkey
	b.copyInline(wr, data)
}

// WriteImm writes the bytes of local to the peer's memory, and completes a
// receive of the peer's with a number.
func (b *Batch) WriteImm(id uint64, imm uint32, local SGE, remote uint64, rkey uint32) {
	b.remote(OpWriteImm, id, local, remote, rkey).ImmData = imm
}

// Read reads the peer's memory into local.
func (b *Batch) Read(id uint64, local SGE, remote uint64, rkey uint32) {
	b.remote(OpRead, id, local, remote, rkey)
}

// CompareSwap stores swap in the peer's 8 bytes at remote if they hold compare;
// local, of 8 bytes, gets what they held.
func (b *Batch) CompareSwap(id uint64, local SGE, remote uint64, rkey uint32, compare, swap uint64) {
	wr := b.remote(OpCompareSwap, id, local, remote, rkey)
	wr.CompareAdd, wr.Swap = compare, swap
}

// FetchAdd adds to the peer's 8 bytes at remote; local, of 8 bytes, gets what
// they held.
func (b *Batch) FetchAdd(id uint64, local SGE, remote uint64, rkey uint32, add uint64) {
	b.remote(OpFetchAdd, id, local, remote, rkey).CompareAdd = add
}

// AtomicWrite stores v in the peer's 8 bytes at remote, all at once.
func (b *Batch) AtomicWrite(id uint64, v [8]byte, remote uint64, rkey uint32) {
	wr := b.next(OpAtomicWrite, id)
	wr.RemoteAddr, wr.RKey = remote, rkey
	b.copyInline(wr, v[:])
}

// Flush waits until earlier writes to the peer's memory are where f says.
func (b *Batch) Flush(id uint64, f Flush, remote uint64, rkey uint32) {
	wr := b.next(OpFlush, id)
	wr.RemoteAddr, wr.RKey, wr.Flush = remote, rkey, f
}

// Bind binds a memory window: see MW.Bind.
func (b *Batch) Bind(id uint64, w *MW, mr *MR, off, n int, access Access) {
	b.next(OpBindMW, id).Bind = w.Bind(mr, off, n, access).Bind
}

// LocalInv invalidates a key of this host.
func (b *Batch) LocalInv(id uint64, rkey uint32) { b.next(OpLocalInv, id).InvalidateRKey = rkey }

func (b *Batch) remote(op SendOpcode, id uint64, local SGE, remote uint64, rkey uint32) *SendWR {
	wr := b.next(op, id)
	wr.RemoteAddr, wr.RKey = remote, rkey
	b.sg = append(b.sg[:0], local)
	wr.SGList = b.sg
	return wr
}

// To says whom the last request, a datagram, goes to.
func (b *Batch) To(ah *AH, qpn, qkey uint32) {
	if b.pending {
		b.wr.AH, b.wr.RemoteQPN, b.wr.RemoteQKey = ah, qpn, qkey
	}
}

// Signal has the last request complete with a WC.
func (b *Batch) Signal() { b.flag(SendSignaled) }

// Solicited has the completion at the peer of the last request be a solicited
// one.
func (b *Batch) Solicited() { b.flag(SendSolicited) }

// Fence has the last request wait for all earlier reads and atomics.
func (b *Batch) Fence() { b.flag(SendFence) }

func (b *Batch) flag(f SendFlags) {
	if b.pending {
		b.wr.Flags |= f
	}
}

// Post posts what was built, all or nothing: after ErrFull, or any error of a
// request, nothing is posted. The batch is empty afterwards.
func (b *Batch) Post() error {
	b.flush()
	err := b.err
	if err == nil && b.held {
		b.held = false
		err = b.p.BatchPost()
	}
	b.Discard()
	if err != nil && b.qp == nil {
		return &OpError{Op: "post", Object: "batch", Err: err}
	}
	if err != nil {
		return b.qp.opError("post batch to", sized(err, "SendWR", b.qp.Cap().SendWR))
	}
	return nil
}

// Discard forgets what was built, and the error.
func (b *Batch) Discard() {
	if b.held {
		b.p.BatchDiscard()
	}
	b.held, b.pending, b.n, b.err = false, false, 0, nil
}
