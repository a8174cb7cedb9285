// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Conn is an established connection: a QP, and the ID that connects it.
//
// Send, Read, Write and Probe post one work request and wait for it; they take turns.
// A program that wants more posts on QP and polls its CQs. It may use both on the send
// CQ at the same time: each gets its own completions, if the IDs of the program's
// requests are below 1<<63. WaitRecv takes every completion of the receive CQ: a
// program that polls that one itself must not call it. A CQ that sends and receives
// share, or several QPs, is refused by all of them.
//
// All methods may be called concurrently.
type Conn struct {
	ep      *endpoint
	qp      *verbs.QP
	peer    ConnParam
	sending chan struct{} // the turn of Send, Read and Write
	alive   *keepalive    // nil if the peer is not probed

	// Of whoever has the turn.
	lastWR uint64
	waiter *verbs.Waiter // nil before the first request
	wrs    [1]verbs.SendWR
	sg     []verbs.SGE
}

func newConn(ep *endpoint, qp *verbs.QP) *Conn {
	return &Conn{ep: ep, qp: qp, peer: ep.peer, sending: make(chan struct{}, 1)}
}

// QP returns the connection's QP.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD returns the QP's protection domain, in which buffers must be registered: see Alloc.
func (c *Conn) PD() *verbs.PD { return c.qp.PD() }

// Alloc registers new memory of size bytes on PD, as [verbs.PD.Alloc] does. The memory
// belongs to the connection: Close frees it, after the device can no longer reach it. It must
// not be touched after Close. It may be closed before, when no posted request names it.
func (c *Conn) Alloc(size int, access verbs.Access) (*verbs.MR, error) {
	return c.ep.id.alloc(opAlloc, c.qp.PD(), size, access)
}

// Device returns the device that the connection runs over.
func (c *Conn) Device() *verbs.Device { return c.ep.device() }

// ID returns the ID underneath. Its events are the Conn's.
func (c *Conn) ID() *ID { return c.ep.id }

// LocalAddr returns the connection's own address.
func (c *Conn) LocalAddr() Addr { return c.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() Addr { return c.ep.id.RemoteAddr() }

// PeerParam returns the parameters that the peer sent with its request or acceptance.
func (c *Conn) PeerParam() PeerParam { return c.peer.asPeer() }

// PrivateData returns what the peer sent along. On InfiniBand and RoCE there are
// zeros after what it gave.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// Close ends the connection without waiting for the peer, and closes everything that the
// connection owns: its QP, the memory of Alloc and its own PD. A QP that the caller made is
// flushed and stays the caller's. Operations then fail with net.ErrClosed, whatever happened
// before. Memory, CQs, PDs and QPs that the program made may be closed before the connection
// or after it. Close may be called more than once: if the kernel does not destroy the QP, its
// CQs, the memory or the ID, Close returns the error, and the next Close tries again.
func (c *Conn) Close() error { return c.ep.close() }

// PostRecv posts a receive into memory registered in PD. It takes one message;
// its completion comes from WaitRecv and carries wrID. The memory belongs to the
// device until then.
func (c *Conn) PostRecv(wrID uint64, sg ...verbs.SGE) error { return c.ep.postRecv(c.qp, wrID, sg) }

// Send sends one message and waits until the peer's device has it, on iWARP until
// TCP has: what the peer thinks of it ends the connection there. The memory may be used
// again when Send returns, whatever it returns: if ctx ends before the message
// has gone, or the completion cannot be waited for, the QP is moved to the error
// state, because nothing else takes the memory back from the device; if that does not
// help within seconds, the QP is closed. The connection is of no more use then: the error of
// this Send wraps a *BrokenError besides the context's error, and other operations fail with
// that *BrokenError. A Send that ctx ended before it was posted leaves the connection as it
// was. After an operation has failed the QP is in the error state, too, and a *BrokenError
// holds the first failure.
func (c *Conn) Send(ctx context.Context, sg ...verbs.SGE) error {
	return c.run(ctx, opSend, verbs.OpSend, verbs.RemoteMemory{}, sg...)
}

// Write copies local memory into the peer's (RDMA WRITE) and waits until it is
// there, on iWARP until it is sent. remote is what the peer has sent of its memory; Write
// fails with [verbs.ErrRemoteLength] if it is shorter than local. ctx is as for Send.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory) error {
	return c.run(ctx, opWrite, verbs.OpWrite, remote, local)
}

// Read copies the peer's memory into local memory (RDMA READ) and waits until it
// is there. It reads as many bytes as local has. remote is as for Write, ctx is as for
// Send.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory) error {
	return c.run(ctx, opRead, verbs.OpRead, remote, local)
}

// Probe asks whether the peer is still there: its device acknowledges an empty
// WRITE without its program's doing. A dead peer shows as an error when the QP has
// sent it as often as its retry count says, or when ctx ends, after which the
// connection is of no more use, as with Send; [Dialer.AckTimeout] shortens the
// former. On iWARP nothing is acknowledged: the probe gives TCP something to send,
// and the connection ends when TCP gives up.
func (c *Conn) Probe(ctx context.Context) error {
	return c.run(ctx, opProbe, verbs.OpWrite, verbs.RemoteMemory{})
}

// ownIDs is the first ID of the requests of Send, Read, Write and Probe: those of the
// program, which completes others on the same CQ, are below.
const ownIDs = 1 << 63

// run posts one request and waits for its completion.
func (c *Conn) run(ctx context.Context, op string, code verbs.SendOpcode, remote verbs.RemoteMemory, local ...verbs.SGE) error {
	cdev.NeedContext(ctx)
	select {
	case c.sending <- struct{}{}:
		defer func() { <-c.sending }()
	case <-ctx.Done():
		return c.ep.id.opError(op, cdev.ContextError(ctx))
	}
	if ctx.Err() != nil {
		return c.ep.id.opError(op, cdev.ContextError(ctx))
	}
	if err := c.ep.unusable(); err != nil {
		return c.ep.id.opError(op, err)
	}
	if !verbsInternal.Exclusive(c.qp.SendCQ()) {
		return c.ep.id.opError(op, errSharedCQ)
	}
	if code != verbs.OpSend && len(local) > 0 && uint64(local[0].Length) > remote.Length {
		return c.ep.id.opError(op, verbs.ErrRemoteLength)
	}
	if op == opRead && c.ep.id.noReads.Load() {
		return c.ep.id.opError(op, verbs.ErrNoReads)
	}
	if c.waiter == nil {
		c.waiter = c.qp.SendCQ().NewWaiter()
		// A request on a QP that is closed never completes.
		context.AfterFunc(verbsInternal.Closed(c.qp), c.waiter.Interrupt)
	}
	c.lastWR++
	c.sg = append(c.sg[:0], local...)
	c.wrs[0] = verbs.SendWR{ID: ownIDs + c.lastWR, Opcode: code, Flags: verbs.SendSignaled, SGList: c.sg, RemoteAddr: remote.Addr, RKey: remote.RKey}
	c.waiter.Expect(c.wrs[0].ID)
	defer c.waiter.Forget()
	n, err := c.qp.PostSend(c.wrs[:])
	switch {
	case n == 0:
		return c.ended(op, err)
	case err != nil: // it is in the queue, but the device was not told
		return c.cancel(op, err)
	}
	wc, err := c.waiter.Wait(ctx)
	switch {
	case err == nil:
		if err = wc.Err(); err == nil {
			c.alive.touch()
			return nil
		}
		return c.ended(op, err)
	case verbsInternal.Closed(c.qp).Err() != nil:
		return c.ep.id.opError(op, net.ErrClosed)
	case ctx.Err() != nil:
		return c.cancel(op, cdev.ContextError(ctx))
	}
	return c.cancel(op, err)
}

// cancel gives the connection up because of cause, and returns when the device has no
// more of the outstanding request. If that has succeeded meanwhile, so has the
// operation.
func (c *Conn) cancel(op string, cause error) error {
	broken := &BrokenError{Op: op, Err: cause, Cancelled: true}
	c.ep.giveUp(broken)
	if c.reclaim() {
		return nil
	}
	e := &cancelledError{cause: cause, broken: broken}
	if op == opSend && errors.Is(cause, os.ErrDeadlineExceeded) {
		e.hint = " (" + hintNoAnswer + ", or has no receive posted)"
	}
	return c.ep.id.opError(op, e)
}

// How long reclaim waits for the completion of a flushed request, and how long between
// two tries at most.
const (
	reclaimGrace = 2 * time.Second
	reclaimPause = 50 * time.Millisecond
)

// reclaim takes the memory of the outstanding request back from the device, and
// reports whether the request succeeded before that. It moves the QP to the error
// state, which flushes the request, and waits for the completion. If it gets none, it
// closes the QP, whoever made it: then the device has nothing either. Both may fail for
// a moment, for want of memory.
func (c *Conn) reclaim() (succeeded bool) {
	ctx, stop := context.WithTimeout(context.Background(), reclaimGrace)
	defer stop()
	gone := verbsInternal.Closed(c.qp)
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, reclaimPause) {
		bound := pause
		if flushQP(c.qp) == nil {
			bound = reclaimGrace
		}
		again, stop := context.WithTimeout(ctx, bound)
		wc, err := c.waiter.Wait(again)
		unable := err != nil && again.Err() == nil
		stop()
		switch {
		case err == nil:
			return wc.Err() == nil
		case gone.Err() != nil:
			return false
		case unable:
			time.Sleep(pause)
		}
	}
	for pause := time.Millisecond; gone.Err() == nil; pause = min(2*pause, reclaimPause) {
		// An error after the QP is gone is that of its CQs.
		if c.qp.Close() != nil && gone.Err() == nil {
			time.Sleep(pause)
		}
	}
	return false
}

// WaitRecv waits for a message in a posted receive: the completion's ID says which
// receive it was, and its ByteLen how many bytes came. A receive that has failed, other
// than by a flush, is an error that wraps a *verbs.WCError, and its completion is
// returned beside it. Where
// none is posted it waits for the end. It returns io.EOF when the peer has
// disconnected and every message before that has been taken; if this side was
// first, a *DisconnectedError that says so. A QP that failed before, for which
// there is a *BrokenError, has lost messages: that is no io.EOF. When ctx ends the
// receives stay posted, and the error is the context's, os.ErrDeadlineExceeded, too, if
// its deadline passed; after Close it is net.ErrClosed.
func (c *Conn) WaitRecv(ctx context.Context) (verbs.WC, error) {
	cdev.NeedContext(ctx)
	var wc [1]verbs.WC
	if c.ep.id.gate.isShut() {
		return wc[0], c.ep.id.opError(opRecv, net.ErrClosed)
	}
	if !verbsInternal.Exclusive(c.qp.RecvCQ()) {
		return wc[0], c.ep.id.opError(opRecv, errSharedCQ)
	}
	n, err := c.qp.RecvCQ().Poll(wc[:])
	if n == 0 && err == nil {
		n, err = c.waitRecv(ctx, wc[:])
	}
	switch {
	case err != nil:
		return verbs.WC{}, c.ended(opRecv, err)
	case n == 0:
		return verbs.WC{}, c.ended(opRecv, errFlushed)
	}
	if err := wc[0].Err(); err != nil {
		return wc[0], c.ended(opRecv, err)
	}
	c.alive.touch()
	return wc[0], nil
}

var errSharedCQ = errors.New("the CQ has other users, whose completions this would take: poll it yourself")

// errFlushed stands for the flush of a receive where none was posted.
var errFlushed = errors.New("flushed")

// waitRecv waits until a completion is there or the connection has ended: without
// a posted receive there is nothing that the end would flush.
func (c *Conn) waitRecv(ctx context.Context, wc []verbs.WC) (int, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ep.over, func() { cancel(errFlushed) })()
	n, err := c.qp.RecvCQ().Wait(both, wc)
	if err != nil && context.Cause(both) == errFlushed {
		return c.qp.RecvCQ().Poll(wc)
	}
	return n, err
}

// Explain returns an error of the QP, such as that of a failed completion, with the
// connection's addresses and its cause: it is for those who post and poll themselves.
// A failure that names its cause is kept, and explains the flushes that follow it, by
// a *BrokenError. A flush after a disconnect, the removal of the device or Close is
// explained by that, as by Send and its siblings; Explain may wait for the event that
// tells, on iWARP up to a second. Explain of nil is nil: conn.Explain(wc.Err()) may be
// used as it is.
func (c *Conn) Explain(err error) error {
	if err == nil {
		return nil
	}
	if wcErr := new(verbs.WCError); !errors.As(err, &wcErr) {
		return c.ep.id.opError(opWork, err)
	} else if first := c.ep.failed(); first != nil && wcErr.Status == verbs.WCWRFlushErr {
		return c.ep.id.opError(opWork, first) // after Close, too
	}
	return c.ended(opWork, err)
}
