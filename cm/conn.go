// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"net"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Conn is an established connection: a QP, and the ID that connects it.
//
// Send, Read and Write post one work request and wait for it; they take turns.
// Those who want more post on QP and poll its CQs themselves, and then leave
// those three and WaitRecv alone: a completion can be taken once. So a CQ that
// sends and receives share, or several QPs, is refused by them.
//
// All methods may be called concurrently.
type Conn struct {
	ep      *endpoint
	qp      *verbs.QP
	peer    ConnParam
	sending chan struct{} // the turn of Send, Read and Write
	lastWR  uint64        // of whoever has the turn
}

func newConn(ep *endpoint, qp *verbs.QP) *Conn {
	return &Conn{ep: ep, qp: qp, peer: ep.peer, sending: make(chan struct{}, 1)}
}

// QP returns the connection's QP.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD returns the QP's protection domain, in which buffers must be registered.
func (c *Conn) PD() *verbs.PD { return c.qp.PD() }

// Device returns the device that the connection runs over.
func (c *Conn) Device() *verbs.Device { return c.ep.device() }

// ID returns the ID underneath. Its events are the Conn's.
func (c *Conn) ID() *ID { return c.ep.id }

// LocalAddr returns the connection's own address.
func (c *Conn) LocalAddr() Addr { return c.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() Addr { return c.ep.id.RemoteAddr() }

// PeerParam returns what the peer sent: its request, or its acceptance.
func (c *Conn) PeerParam() ConnParam { return c.peer }

// PrivateData returns what the peer sent along. On InfiniBand and RoCE there are
// zeros after what it gave.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// Close ends the connection without waiting for the peer, and gives everything
// up that the connection owns: a QP that the caller made is flushed and stays
// his. Operations then fail with net.ErrClosed, whatever came before. It may be called
// more than once.
func (c *Conn) Close() error {
	c.ep.close()
	return nil
}

// PostRecv posts a receive into memory registered in PD. It takes one message;
// its completion comes from WaitRecv and carries wrID. The memory belongs to the
// device until then.
func (c *Conn) PostRecv(wrID uint64, sg ...verbs.SGE) error { return c.ep.postRecv(c.qp, wrID, sg) }

// Send sends one message and waits until the peer's device has it, on iWARP until
// TCP has: what the peer thinks of it ends the connection there. The memory may be used
// again when Send returns, whatever it returns: if ctx ends before the message
// has gone, the QP is moved to the error state, because nothing else takes the
// memory back from the device. The connection is of no more use then: what
// others do on it fails with a *GivenUpError. After an operation that has failed
// the QP is in the error state, too: a *BrokenError then tells what came first.
func (c *Conn) Send(ctx context.Context, sg ...verbs.SGE) error {
	return c.run(ctx, opSend, verbs.SendWR{Opcode: verbs.OpSend, SGList: sg})
}

// Write copies local memory into the peer's (RDMA WRITE) and waits until it is
// there, on iWARP until it is sent. remoteAddr and rkey are what the peer has told of
// its memory. ctx is as for Send.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, remoteAddr uint64, rkey uint32) error {
	return c.run(ctx, opWrite, verbs.SendWR{Opcode: verbs.OpWrite, SGList: []verbs.SGE{local}, RemoteAddr: remoteAddr, RKey: rkey})
}

// Read copies the peer's memory into local memory (RDMA READ) and waits until it
// is there. remoteAddr and rkey are as for Write, ctx is as for Send.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, remoteAddr uint64, rkey uint32) error {
	return c.run(ctx, opRead, verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{local}, RemoteAddr: remoteAddr, RKey: rkey})
}

// Probe asks whether the peer is still there: its device acknowledges an empty
// WRITE without its program's doing. A dead peer shows as an error when the QP has
// sent it as often as its retry count says, or when ctx ends, after which the
// connection is of no more use, as with Send; [Dialer.AckTimeout] shortens the
// former. On iWARP nothing is acknowledged: the probe gives TCP something to send,
// and the connection ends when TCP gives up.
func (c *Conn) Probe(ctx context.Context) error {
	return c.run(ctx, opProbe, verbs.SendWR{Opcode: verbs.OpWrite})
}

// run posts one request and waits for its completion.
func (c *Conn) run(ctx context.Context, op string, wr verbs.SendWR) error {
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
	if err := c.ep.useless(); err != nil {
		return c.ep.id.opError(op, err)
	}
	if !c.qp.SendCQ().Exclusive() {
		return c.ep.id.opError(op, errSharedCQ)
	}
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// What is on a QP that is closed never completes.
	defer context.AfterFunc(c.qp.Gone(), func() { stop(net.ErrClosed) })()
	var cancelled error
	giveUp := func(err error) {
		// The device still has the memory. Flushing gives it back.
		cancelled = err
		c.ep.giveUp(&GivenUpError{Op: op, Err: err})
		flushQP(c.qp)
		wait = c.qp.Gone()
	}
	c.lastWR++
	wr.ID, wr.Flags = c.lastWR, wr.Flags|verbs.SendSignaled
	wrs := [1]verbs.SendWR{wr}
	if n, err := c.qp.PostSend(wrs[:]); n == 0 {
		return c.ended(op, err)
	} else if err != nil { // it is in the queue, but the device was not told
		giveUp(err)
	}
	var wc [1]verbs.WC
	for {
		n, err := c.qp.SendCQ().Wait(wait, wc[:])
		switch {
		case err != nil && c.qp.Gone().Err() != nil:
			return c.ep.id.opError(op, cmp.Or(cancelled, net.ErrClosed))
		case err != nil && cancelled == nil && ctx.Err() != nil:
			giveUp(cdev.ContextError(ctx))
		case err != nil:
			return c.ended(op, err)
		case n == 1 && wc[0].ID == wr.ID:
			if err := wc[0].Err(); err == nil {
				return nil
			} else if cancelled != nil {
				return c.ep.id.opError(op, cancelled)
			} else {
				return c.ended(op, err)
			}
		}
	}
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
	if !c.qp.RecvCQ().Exclusive() {
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
	if errors.Is(err, errFlushed) {
		return c.qp.RecvCQ().Poll(wc)
	}
	return n, err
}

// Explain gives an error of the QP, such as that of a failed completion, the
// connection's addresses: it is for those who post and poll themselves. The first
// failure is kept, and explains the flushes that follow it, by a *BrokenError.
// Explain of nil is nil: conn.Explain(wc.Err()) may be used as it is.
func (c *Conn) Explain(err error) error {
	if err == nil {
		return nil
	}
	if wcErr := new(verbs.WCError); errors.As(err, &wcErr) {
		first := c.ep.failed()
		switch {
		case wcErr.Status != verbs.WCWRFlushErr:
			c.ep.broke(opWork, wcErr)
		case first != nil:
			err = first
		}
	}
	return c.ep.id.opError(opWork, err)
}
