// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/mem"
	"purerdma/verbs"
)

// Op is an operation of a Conn that was started. The goroutine that has it calls Wait until the
// operation has completed, or Abandon or Detach. An Op is for one goroutine at a time. The methods of
// the zero Op panic.
type Op struct {
	conn *Conn
	name string
	op   inflight.Op
}

// StartSend starts to send one message, and returns before it is sent. One goroutine can have
// many operations in flight this way:
//
//	op, err := conn.StartSend(ctx, b.SGE(), b.Ref())
//	...
//	err = op.Wait(ctx)
//
// The operation completes when the peer's device has received the message, as in Send. Until then
// the memory belongs to the device. The connection calls hold.Free when the operation has
// completed, or when StartSend fails. So hold is a reference to the memory, such as a *pool.Buf
// returned by Ref. If hold is nil, the program must not use the memory until Op.Wait has returned
// the result, or the QP is closed.
//
// StartSend waits while the send queue is full. If ctx ends before there is room, it returns
// the context's error, and the connection does not change. In a function of HandleMessages or
// [inflight.Queue.Go] it does not wait, and fails with an error that wraps syscall.EAGAIN.
func (c *Conn) StartSend(ctx context.Context, local verbs.SGE, hold inflight.Holder) (Op, error) {
	return c.start(ctx, opSend, &verbs.SendWR{Opcode: verbs.OpSend}, local, verbs.RemoteMemory{}, hold)
}

// StartWrite starts a Write. It is otherwise like StartSend.
func (c *Conn) StartWrite(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory, hold inflight.Holder) (Op, error) {
	return c.start(ctx, opWrite, &verbs.SendWR{Opcode: verbs.OpWrite}, local, remote, hold)
}

// StartRead starts a Read. It is otherwise like StartSend.
func (c *Conn) StartRead(ctx context.Context, local verbs.SGE, remote verbs.RemoteMemory, hold inflight.Holder) (Op, error) {
	return c.start(ctx, opRead, &verbs.SendWR{Opcode: verbs.OpRead}, local, remote, hold)
}

func (c *Conn) start(ctx context.Context, name string, wr *verbs.SendWR, local verbs.SGE, remote verbs.RemoteMemory, hold inflight.Holder) (Op, error) {
	cdev.NeedContext(ctx)
	q, err := c.admit(name, wr.Opcode, local.Length, remote)
	if err != nil {
		if hold != nil {
			hold.Free()
		}
		return Op{}, c.ep.id.opError(name, err)
	}
	sg := [1]verbs.SGE{local}
	wr.SGList, wr.RemoteAddr, wr.RKey = mem.NoEscape(sg[:]), remote.Addr, remote.RKey
	op, err := q.Start(ctx, wr, hold)
	if err != nil {
		return Op{}, c.ep.id.opError(name, err)
	}
	return Op{c, name, op}, nil
}

// Wait waits for the operation and returns its error, as Send and its siblings do. A failure breaks the
// connection. After the result, the Op must not be used any more.
//
// If ctx ends before the operation, Wait returns the context's error, and the operation continues.
// The connection does not change. errors.As finds an *inflight.PendingError in that error. Call Wait
// again, or Abandon. If Wait cannot wait for another reason, such as an overrun of the CQ, it returns
// such an error and breaks the connection.
func (o Op) Wait(ctx context.Context) error {
	c := o.conn
	c.running.Add(1)
	defer c.running.Add(-1)
	err := o.op.Wait(ctx)
	if err == nil {
		c.alive.Load().touch()
		return nil
	}
	if pending, ok := errors.AsType[*inflight.PendingError](err); ok {
		switch {
		case verbsInternal.Closed(c.qp).Err() != nil:
			pending.Err = net.ErrClosed
		case ctx.Err() == nil:
			c.lose(o.name, pending.Err)
		}
		return c.ep.id.opError(o.name, pending)
	}
	return c.ended(o.name, err)
}

// lose ends the use of the connection after a fault that may keep completions away. Operations in
// flight complete when they are flushed, or when the QP is closed.
func (c *Conn) lose(op string, err error) {
	if c.ep.id.gate.isShut() {
		return // Close flushes the QP
	}
	c.ep.giveUp(&BrokenError{Op: op, Err: err, Cancelled: true})
	_ = flushQP(c.qp) // Close tries again
}

// Done reports whether the operation has completed, so that the device no longer uses its
// memory.
func (o Op) Done() bool { return o.op.Done() }

// Abandon drops the result. The connection continues, and the memory still belongs to the device
// until the operation has completed. The connection then calls Free of the operation's Holder. An
// operation that was not posted yet, because others were before it, is never posted. Abandon after
// the result of Wait has no effect, so it can be deferred.
func (o Op) Abandon() { o.op.Abandon() }

// Detach drops the result, but not the operation, even if it was not posted yet. It is for messages
// without a waiting goroutine, such as an answer to a request:
//
//	op, err := conn.StartSend(ctx, b.SGE(), b)
//	if err == nil {
//		op.Detach()
//	}
//
// An operation that fails breaks the connection, so later calls report it.
func (o Op) Detach() { o.op.Detach() }
