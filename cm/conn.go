// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/mem"
	"purerdma/verbs"
)

// Conn is an established connection. It has a QP and the ID that connects the QP.
//
// Send, Read, Write, CompareSwap, FetchAdd and Probe each post one work request and wait for its
// completion. Any number of goroutines may call them at a time. Their requests are in flight
// together, and are posted in the order of the calls, with one doorbell for all requests that
// have gathered. A request waits while the send queue is full. A READ or atomic also waits while
// as many of them are in flight as the connection's initiator depth allows, and delays the
// requests behind it. StartSend, StartRead and StartWrite return before the completion, so that
// one goroutine can have many requests in flight.
//
// A program may also post to the QP itself and poll the send CQ while these methods run. The
// program and the methods each get their own completions if the IDs of the program's
// requests are below 1<<63. WaitRecv takes every completion of the receive CQ. A program that polls
// the receive CQ must not call WaitRecv. WaitRecv fails if the CQ serves several QPs, or both
// queues of one QP.
//
// The methods that wait for completions need CQs with a completion channel, so not CQs with
// verbs.CQConfig.NoEvents. The CQs that the connection makes have one.
//
// All methods may be called concurrently.
type Conn struct {
	ep     *endpoint
	qp     *verbs.QP
	peer   ConnParam
	probes bool                      // whether the send CQ has room for probes. It does not change
	alive  atomic.Pointer[keepalive] // nil if the peer is not probed

	opsMu   sync.Mutex   // held while ep.ops is made
	running atomic.Int32 // calls that have not returned
}

func newConn(ep *endpoint, qp *verbs.QP) *Conn {
	ep.countOpen()
	return &Conn{ep: ep, qp: qp, peer: ep.peer}
}

// QP returns the connection's QP.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD returns the QP's protection domain. Buffers must be registered in it: see Alloc.
func (c *Conn) PD() *verbs.PD { return c.qp.PD() }

// Alloc registers new memory of size bytes on PD, as [verbs.PD.Alloc] does. The memory belongs
// to the connection. Close frees it, after the device can no longer reach it. The program must
// not touch the memory after Close. It may close the memory earlier if no posted request uses
// it.
func (c *Conn) Alloc(size int, access verbs.Access) (*verbs.MR, error) {
	return c.ep.id.alloc(opAlloc, c.qp.PD(), size, access)
}

// Device returns the device that the connection runs over.
func (c *Conn) Device() *verbs.Device { return c.ep.device() }

// ID returns the underlying ID. The Conn fetches the ID's events.
func (c *Conn) ID() *ID { return c.ep.id }

// LocalAddr returns the connection's own address.
func (c *Conn) LocalAddr() Addr { return c.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() Addr { return c.ep.id.RemoteAddr() }

// PeerParam returns the parameters that the peer sent with its request or acceptance.
func (c *Conn) PeerParam() PeerParam { return c.peer.asPeer() }

// PrivateData returns the private data that the peer sent. On InfiniBand and RoCE, zeros
// follow the peer's bytes.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// Close ends the connection without waiting for the peer. It closes everything that the
// connection owns: its QP, the memory of Alloc and its own PD. A QP that the caller made is
// flushed and still belongs to the caller. Later operations fail with net.ErrClosed,
// regardless of earlier failures. Only Explain still returns the first failure. The program
// may close its own memory, CQs, PDs and QPs before the connection or after it.
//
// Close may be called more than once. If the kernel does not destroy the QP, its CQs, the
// memory or the ID, Close returns the error, and the next Close tries again.
func (c *Conn) Close() error { return c.ep.close() }

// PostRecv posts a receive into memory registered in PD. The receive takes one message.
// WaitRecv returns its completion, which carries wrID. The memory belongs to the device until
// then.
func (c *Conn) PostRecv(wrID uint64, sg ...verbs.SGE) error { return c.ep.postRecv(c.qp, wrID, sg) }

// Send sends one message and waits until the peer's device has received it. On iWARP it waits
// only until TCP has accepted the message, and an error at the peer then ends the connection.
// The memory may be used again when Send returns, with or without an error. sg has at most as many
// elements as SendSGE of QP.Cap, which is 2 or more unless the program requests less.
//
// If ctx ends before the posted request completes, or Send cannot wait for the completion, Send
// moves the QP to the error state. Nothing else takes the memory back from the device. If the
// request is not flushed within seconds, Send closes the QP. The connection is then unusable. The error of
// this Send wraps the context's error and a *BrokenError, and other operations fail with that
// *BrokenError. If ctx ends before the request is posted, the connection does not change.
//
// A failed operation also leaves the QP in the error state. A *BrokenError then holds the
// first failure.
func (c *Conn) Send(ctx context.Context, sg ...verbs.SGE) error {
	return c.do(ctx, opSend, &verbs.SendWR{Opcode: verbs.OpSend}, verbs.RemoteMemory{}, sg...)
}

// Write copies local memory into the peer's memory (RDMA WRITE) and waits until the data is
// there. On iWARP it waits only until the data is sent. remote is the description of its
// memory that the peer has sent. Write fails with [verbs.ErrRemoteLength] if remote is shorter
// than local. ctx has the same effect as in Send.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory) error {
	return c.do(ctx, opWrite, &verbs.SendWR{Opcode: verbs.OpWrite}, remote, local)
}

// Read copies the peer's memory into local memory (RDMA READ) and waits until the data is
// there. It reads local.Length bytes. remote is as in Write, and ctx has the same effect as in
// Send.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory) error {
	return c.do(ctx, opRead, &verbs.SendWR{Opcode: verbs.OpRead}, remote, local)
}

// CompareSwap replaces the 8 bytes at remote by swap if they are equal to compare, atomically with
// other atomics of the device. local gets the old value, in the byte order of the peer's device. ctx
// has the same effect as in Send. Not every device has atomics (verbs.Features.Atomics).
func (c *Conn) CompareSwap(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory, compare, swap uint64) error {
	return c.do(ctx, opAtomic, &verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: compare, Swap: swap}, remote, local)
}

// FetchAdd adds a number to the 8 bytes at remote, atomically with other atomics of the device. It
// is otherwise like CompareSwap.
func (c *Conn) FetchAdd(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory, add uint64) error {
	return c.do(ctx, opAtomic, &verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: add}, remote, local)
}

// Probe checks whether the peer is still there. It sends an empty WRITE, which the peer's
// device acknowledges without its program. If the peer is dead, Probe fails when the QP has
// used up its retries, or when ctx ends. The connection is then unusable, as after a failed
// Send. [Dialer.AckTimeout] shortens the time that the retries take. On iWARP the peer's
// device acknowledges nothing. There the probe makes TCP send data, and the connection ends
// when TCP stops retrying.
func (c *Conn) Probe(ctx context.Context) error {
	return c.do(ctx, opProbe, &verbs.SendWR{Opcode: verbs.OpWrite}, verbs.RemoteMemory{})
}

// Operations returns the queue that runs the operations of the connection. It is for operations with a
// function (inflight.Queue.Go), and for requests without a method of Conn, such as a WRITE with
// immediate data. Requests of the queue and of the methods are posted in the order of the calls. The
// queue does not compare the lengths of local and remote memory. Explain finds the reason of an
// error.
func (c *Conn) Operations() (*inflight.Queue, error) {
	if q := c.ep.ops.Load(); q != nil {
		return q, nil
	}
	c.opsMu.Lock()
	defer c.opsMu.Unlock()
	if q := c.ep.ops.Load(); q != nil {
		return q, nil
	}
	q, err := inflight.New(c.qp, inflight.Config{
		MaxReads: max(0, int(c.ep.id.readDepth.Load())),
		Lost:     func(err error) { c.lose(opWork, err) },
	})
	if err != nil {
		return nil, err
	}
	c.ep.ops.Store(q)
	return q, nil
}

// ReadDepth returns the number of READs and atomics that the connection can have in flight. It is -1 if the
// kernel does not report it, as on iWARP if this side has not excluded READs.
func (c *Conn) ReadDepth() int { return int(c.ep.id.readDepth.Load()) }

// admit checks an operation that names length bytes of the peer's memory, and returns the queue
// for it.
func (c *Conn) admit(op string, code verbs.SendOpcode, length uint32, remote verbs.RemoteMemory) (*inflight.Queue, error) {
	if err := c.ep.unusable(); err != nil {
		return nil, err
	}
	if code != verbs.OpSend && uint64(length) > remote.Length {
		return nil, verbs.ErrRemoteLength
	}
	if (op == opRead || op == opAtomic) && c.ep.id.readDepth.Load() == 0 {
		return nil, verbs.ErrNoReads
	}
	return c.Operations()
}

// do runs one operation.
func (c *Conn) do(ctx context.Context, op string, wr *verbs.SendWR, remote verbs.RemoteMemory, local ...verbs.SGE) error {
	cdev.NeedContext(ctx)
	if ctx.Err() != nil {
		return c.ep.id.opError(op, cdev.ContextError(ctx))
	}
	var length uint32
	if len(local) > 0 {
		length = local[0].Length
	}
	q, err := c.admit(op, wr.Opcode, length, remote)
	if err != nil {
		return c.ep.id.opError(op, err)
	}
	c.running.Add(1)
	defer c.running.Add(-1)
	wr.SGList, wr.RemoteAddr, wr.RKey = mem.NoEscape(local), remote.Addr, remote.RKey
	p, err := q.Submit(wr, nil)
	if err != nil {
		return c.ep.id.opError(op, err)
	}
	if err = p.Wait(ctx); err == nil {
		c.alive.Load().touch()
		return nil
	}
	return c.unfinished(op, p, err)
}

// unfinished ends an operation whose Wait returned an error, and returns the error of the operation. If the
// operation has not completed, unfinished cancels it.
func (c *Conn) unfinished(op string, p inflight.Op, err error) error {
	pending, ok := errors.AsType[*inflight.PendingError](err)
	switch {
	case !ok:
		return c.ended(op, err)
	case p.Withdraw():
		return c.ep.id.opError(op, pending.Err)
	case verbsInternal.Closed(c.qp).Err() != nil:
		p.Abandon()
		return c.ep.id.opError(op, net.ErrClosed)
	}
	return c.cancel(op, p, pending.Err)
}

// cancel ends the use of the connection because of cause. It returns when the device no longer
// uses the memory of the outstanding request. If the request succeeds before that, the
// operation has succeeded, and cancel returns nil.
func (c *Conn) cancel(op string, p inflight.Op, cause error) error {
	broken := &BrokenError{Op: op, Err: cause, Cancelled: true}
	c.ep.giveUp(broken)
	if c.reclaim(p) {
		return nil
	}
	e := &cancelledError{cause: cause, broken: broken}
	if op == opSend && errors.Is(cause, os.ErrDeadlineExceeded) {
		e.hint = " (" + hintNoAnswer + ", or has no receive posted)"
	}
	return c.ep.id.opError(op, e)
}

// reclaimGrace bounds how long reclaim waits for the completion of a flushed request.
// reclaimPause is the longest pause between two tries.
const (
	reclaimGrace = 2 * time.Second
	reclaimPause = 50 * time.Millisecond
)

// reclaim takes the memory of the outstanding request back from the device. It reports whether
// the request succeeded before that. It moves the QP to the error state, which flushes the
// request, and waits for the completion. If no completion arrives, it closes the QP, even if
// the program made it. The device cannot use the memory after that. Both steps may fail
// temporarily when memory is short.
func (c *Conn) reclaim(p inflight.Op) (succeeded bool) {
	ctx, stop := context.WithTimeout(context.Background(), reclaimGrace)
	defer stop()
	gone := verbsInternal.Closed(c.qp)
	for pause := time.Millisecond; ctx.Err() == nil && gone.Err() == nil; pause = min(2*pause, reclaimPause) {
		bound := pause
		if flushQP(c.qp) == nil {
			bound = reclaimGrace
		}
		again, stop := context.WithTimeout(ctx, bound)
		err := p.Wait(again)
		unable := again.Err() == nil
		stop()
		if _, pending := errors.AsType[*inflight.PendingError](err); !pending {
			return err == nil
		}
		if unable {
			time.Sleep(pause)
		}
	}
	for pause := time.Millisecond; gone.Err() == nil; pause = min(2*pause, reclaimPause) {
		// An error after the QP is closed comes from its CQs.
		if c.qp.Close() != nil && gone.Err() == nil {
			time.Sleep(pause)
		}
	}
	p.Abandon()
	return false
}

// WaitRecv waits for a message in a posted receive. The completion's ID identifies the
// receive, and its ByteLen is the number of bytes that arrived. If a receive fails for another
// reason than a flush, WaitRecv returns its completion and an error that wraps a
// *verbs.WCError. If no receive is posted, WaitRecv waits for the end of the connection.
//
// WaitRecv returns io.EOF when the peer has disconnected and all earlier messages have been
// taken. If this side disconnected first, it returns a *DisconnectedError whose Local is true.
// If the QP failed before, messages are lost, and WaitRecv returns a *BrokenError instead of
// io.EOF.
//
// When ctx ends, the receives stay posted and the error is the context's. If the deadline of
// ctx passed, the error also wraps os.ErrDeadlineExceeded. After Close the error is
// net.ErrClosed.
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
		return verbs.WC{}, c.ended(opRecv, flushError{c.qp.Num()})
	}
	if err := wc[0].Err(); err != nil {
		return wc[0], c.ended(opRecv, err)
	}
	c.alive.Load().touch()
	return wc[0], nil
}

var errSharedCQ = errors.New("the CQ also serves other queues: use CQ.Wait instead")

// errOver ends waits for a receive after the end of the connection.
var errOver = errors.New("the connection is over")

// waitRecv waits until a completion arrives or the connection ends. Without a posted receive,
// the end of the connection flushes nothing and so causes no completion.
func (c *Conn) waitRecv(ctx context.Context, wc []verbs.WC) (int, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ep.over, func() { cancel(errOver) })()
	n, err := c.qp.RecvCQ().Wait(both, wc)
	if err != nil && context.Cause(both) == errOver {
		return c.qp.RecvCQ().Poll(wc)
	}
	return n, err
}

// Explain adds the connection's addresses and the cause to an error of the QP, such as the
// error of a failed completion. It is intended for programs that post requests and poll CQs
// themselves. Explain keeps a failure that names its cause, and explains later flushes by a
// *BrokenError with that failure. A disconnect, a device removal or Close explains a flush
// that follows it, as in the errors of Send. Explain may wait for up to a second. It waits for
// the event that reports the end, and for a Send, Read, Write or Probe in progress, whose
// failure may be the cause. Explain(nil) returns nil, so conn.Explain(wc.Err()) needs no check.
func (c *Conn) Explain(err error) error {
	if err == nil {
		return nil
	}
	if wcErr := new(verbs.WCError); !errors.As(err, &wcErr) {
		return c.ep.id.opError(opWork, err)
	} else if first := c.ep.failed(); first != nil && wcErr.Status == verbs.WCWRFlushErr {
		return c.ep.id.opError(opWork, first) // even after Close
	}
	return c.ended(opWork, err)
}
