// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Done returns a channel that is closed when the connection is of no more use: one
// side has disconnected, the device is gone, an operation was cancelled or the QP has
// failed and an operation or Explain has met that, or the connection was closed. Err
// returns which of these it was.
func (c *Conn) Done() <-chan struct{} { return c.ep.over.Done() }

// Err returns nil until Done is closed, and then why it was: a *DisconnectedError,
// *verbs.DeviceRemovedError or *BrokenError, the error of the kernel if
// no more events can be fetched, or net.ErrClosed if Close came first.
func (c *Conn) Err() error {
	if c.ep.over.Err() == nil {
		return nil
	}
	if err := c.ep.failed(); err != nil {
		return c.ep.id.opError(opConnection, err)
	}
	select {
	case <-c.ep.ended:
		return c.ep.id.opError(opConnection, c.ep.cause)
	default:
		return c.ep.id.opError(opConnection, net.ErrClosed)
	}
}

// Wait waits until one side has disconnected or the device is gone, and returns which:
// that is no error, and is returned after Close, too. If the connection was closed
// before that, the error is net.ErrClosed. A connection that is of no more use for
// another reason, as Done tells, stands until one side disconnects.
func (c *Conn) Wait(ctx context.Context) (End, error) {
	cdev.NeedContext(ctx)
	select {
	case <-c.ep.ended:
		return c.ep.end, nil
	default:
	}
	select {
	case <-c.ep.ended:
		return c.ep.end, nil
	case <-c.ep.pumped:
		if err := c.ep.unusable(); err != nil {
			return End{}, c.ep.id.opError(opEvent, err)
		}
		return End{}, c.ep.id.opError(opEvent, net.ErrClosed)
	case <-ctx.Done():
		return End{}, c.ep.id.opError(opEvent, cdev.ContextError(ctx))
	}
}

// Disconnect ends the connection and waits until the peer has answered
// (rdma_disconnect(3)). What is posted is flushed. ctx bounds the wait alone: the
// connection ends whatever becomes of ctx.
func (c *Conn) Disconnect(ctx context.Context) (End, error) {
	cdev.NeedContext(ctx)
	// On iWARP the kernel may wait where no context reaches it.
	told := make(chan error, 1)
	go func() { told <- c.ep.id.Disconnect() }()
	var err error
	select {
	case err = <-told:
	case <-ctx.Done():
		return End{}, c.ep.id.opError(opDisconnect, cdev.ContextError(ctx))
	}
	select {
	case <-c.ep.ended: // the peer was first
		return c.ep.end, nil
	default:
	}
	if err != nil {
		return End{}, err
	}
	return c.Wait(ctx)
}

// ended says why an operation failed, by what has happened first: flushes alone
// explain nothing.
func (c *Conn) ended(op string, err error) error {
	id := c.ep.id
	wcErr := new(verbs.WCError)
	failed := errors.As(err, &wcErr)
	switch flushed := errors.Is(err, errFlushed) || failed && wcErr.Status == verbs.WCWRFlushErr; {
	case errors.Is(err, net.ErrClosed):
		return id.opError(op, net.ErrClosed)
	case failed && !flushed:
		err = c.hinted(op, err, wcErr)
		c.ep.broke(op, err)
		return id.opError(op, err)
	case !flushed:
		return id.opError(op, err)
	}
	if err := c.ep.unusable(); err != nil {
		return id.opError(op, err)
	}
	if id.iwarp() {
		c.ep.awaitEnd()
	}
	if state := id.State(); state == StateDisconnected || state == StateRemoved {
		// The event has been fetched: its end is noted any moment.
		select {
		case <-c.ep.ended:
		case <-c.ep.pumped:
			return id.opError(op, net.ErrClosed)
		}
		if err := c.ep.unusable(); err != nil { // found at the end
			return id.opError(op, err)
		}
		if op == opRecv && c.ep.end == (End{Event: EventDisconnected}) {
			return io.EOF
		}
		return id.opError(op, c.ep.cause)
	}
	select {
	case <-c.ep.pumped:
		return id.opError(op, net.ErrClosed)
	default:
	}
	if id.leaving.Load() {
		return id.opError(op, &DisconnectedError{Local: true})
	}
	if op == opRecv || op == opWork {
		c.awaitOperation()
	}
	c.ep.broke("", err)
	return id.opError(op, c.ep.unusable())
}

// operationGrace bounds how long the cause of a flush is awaited from an operation.
const operationGrace = time.Second

// awaitOperation waits until a Send, Read, Write or probe in progress has returned. The QP
// is in the error state, so the device completes it now, and its completion may be the
// failure behind a flush that another goroutine has seen. Some drivers lose completions
// then (docs/reference/driver-faults.md), which the bound is for.
func (c *Conn) awaitOperation() {
	t := time.NewTimer(operationGrace)
	defer t.Stop()
	select {
	case c.sending <- struct{}{}:
		<-c.sending
	case <-t.C:
	}
}
