// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// End is how a connection ended.
type End struct {
	// Event is EventDisconnected or EventDeviceRemoval.
	Event EventType
	// Status is 0, or a negative errno: -ETIMEDOUT if the peer did not answer
	// a disconnect.
	Status int
	// Local says that this side has disconnected, by [Conn.Disconnect], and not
	// the peer.
	Local bool
}

func (e End) String() string {
	if e.Event == EventDeviceRemoval {
		return "the device was removed"
	}
	return (&DisconnectedError{Status: e.Status, Local: e.Local}).Error()
}

// DisconnectedError reports that a connection ended before the operation did, or that the
// peer gave up its request before it was answered.
type DisconnectedError struct {
	Status int  // 0, or a negative errno if the peer did not answer
	Local  bool // this side has disconnected, not the peer
	// Err is the kernel's error of the call that answers a request which the peer has given
	// up, and nil otherwise. The kernel reports nothing about a request before that.
	Err error
}

func (e *DisconnectedError) Error() string {
	who := "the peer has disconnected"
	switch {
	case e.Err != nil:
		return "the peer has given up its request (" + e.Err.Error() + ")"
	case e.Local:
		who = "this side has disconnected"
	}
	if e.Status < 0 {
		return who + ": " + syscall.Errno(-e.Status).Error()
	}
	return who
}

// Is reports whether target is what the same means for a TCP connection:
// syscall.ECONNRESET if the peer has disconnected, syscall.ECONNABORTED if it has given up its
// request, as from accept(2), and net.ErrClosed if this side has disconnected.
func (e *DisconnectedError) Is(target error) bool {
	switch {
	case e.Err != nil:
		return target == syscall.ECONNABORTED
	case e.Local:
		return target == net.ErrClosed
	}
	return target == syscall.ECONNRESET
}

// Unwrap returns Err, or the errno of the kernel, nil if the other side has answered.
func (e *DisconnectedError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return errno(e.Status)
}

// BrokenError reports that a connection is of no more use because its QP is in the error
// state: a work request has failed, or one was cancelled. The kernel's connection manager does
// not notice that: the connection stands until one side disconnects.
type BrokenError struct {
	// Op is the operation that failed first or was cancelled: "send", "receive", "read",
	// "write", "probe", "keepalive", or "work request" for one of those that Conn.Explain was
	// given. It is "" if there are only flushes, as on the side whose memory the peer was not
	// allowed to touch.
	Op string
	// Err is that failure, which wraps a *verbs.WCError with the cause as its Status, or the
	// reason for the cancellation.
	Err error
	// Cancelled reports that the operation was cancelled after it was posted. Moving the QP to
	// the error state is the only way to take its memory back from the device.
	Cancelled bool
}

func (e *BrokenError) Error() string {
	switch {
	case e.Cancelled:
		return "the connection was given up when a " + e.Op + " was cancelled: " + e.Err.Error()
	case e.Op == "":
		return "the connection's QP is in the error state, where the device or a user of the QP has moved it: " + e.Err.Error()
	}
	return "the connection broke when a " + e.Op + " failed: " + e.Err.Error()
}

// Unwrap returns Err, but nil if the context of a cancelled operation had ended: the contexts
// of other operations have not, and to try again is of no use.
func (e *BrokenError) Unwrap() error {
	if e.Cancelled && (errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)) {
		return nil
	}
	return e.Err
}

// Timeout reports whether the connection broke because the peer did not answer: to a request
// within the QP's retries, or to the probe of the keepalive. It is false if a deadline of the
// program has cancelled the operation.
func (e *BrokenError) Timeout() bool {
	if e.Cancelled {
		return e.Op == opKeepAlive
	}
	wc, ok := errors.AsType[*verbs.WCError](e.Err)
	return ok && wc.Status == verbs.WCRetryExcErr
}

// Is reports whether target is syscall.ETIMEDOUT and Timeout is true.
func (e *BrokenError) Is(target error) bool { return target == syscall.ETIMEDOUT && e.Timeout() }

// cancelledError is the error of the operation whose cancellation has ended the connection.
type cancelledError struct {
	cause  error // why it was cancelled
	hint   string
	broken *BrokenError
}

func (e *cancelledError) Error() string {
	return e.cause.Error() + e.hint + ": the connection was given up, to take the memory back from the device"
}

// Unwrap returns the cause, and the BrokenError of the operations that follow.
func (e *cancelledError) Unwrap() []error { return []error{e.cause, e.broken} }

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
