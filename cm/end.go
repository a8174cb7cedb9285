// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// End describes the end of a connection.
type End struct {
	// Event is EventDisconnected or EventDeviceRemoval.
	Event EventType
	// Status is 0, or a negative errno: -ETIMEDOUT if the peer did not answer a disconnect.
	Status int
	// Local is true if this side has disconnected, by [Conn.Disconnect], and not the peer.
	Local bool
}

func (e End) String() string {
	if e.Event == EventDeviceRemoval {
		return "the device was removed"
	}
	return (&DisconnectedError{Status: e.Status, Local: e.Local}).Error()
}

// DisconnectedError reports that a connection ended before the operation did, or that the peer
// abandoned its request before this side answered it.
type DisconnectedError struct {
	Status int  // 0, or a negative errno if the peer did not answer
	Local  bool // this side has disconnected, not the peer
	// Err is the kernel's error of the call that answers an abandoned request, and nil
	// otherwise. The kernel reports nothing about the abandonment before that call.
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

// Is reports whether target is the error that a TCP connection returns in the same case. This
// is syscall.ECONNRESET if the peer has disconnected, and net.ErrClosed if this side has
// disconnected. If the peer has abandoned its request, it is syscall.ECONNABORTED, as from
// accept(2).
func (e *DisconnectedError) Is(target error) bool {
	switch {
	case e.Err != nil:
		return target == syscall.ECONNABORTED
	case e.Local:
		return target == net.ErrClosed
	}
	return target == syscall.ECONNRESET
}

// Unwrap returns Err or the errno of the kernel. It returns nil if the other side has answered.
func (e *DisconnectedError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return errno(e.Status)
}

// BrokenError reports that a connection is unusable because its QP is in the error state.
// A work request has failed, one was cancelled, or the device has written an invalid completion. The
// kernel's connection manager does not detect this, so the connection continues to exist until one
// side disconnects.
type BrokenError struct {
	// Op is the operation that failed first or was cancelled: "send", "receive", "read",
	// "write", "atomic", "probe" or "keepalive". It is "work request" for a failure that the program
	// passed to Conn.Explain. It is "" if there are only flushes, as on the side whose memory
	// the peer was not allowed to access, and if Err is a *verbs.InvalidCompletionError.
	Op string
	// Err is the failure, or the reason for the cancellation. A failure wraps a *verbs.WCError
	// with the cause as its Status. It is a *verbs.InvalidCompletionError if the library has moved
	// the QP to the error state because of an invalid completion.
	Err error
	// Cancelled reports whether the operation was cancelled after it was posted. Moving the QP
	// to the error state is the only way to take the operation's memory back from the device.
	Cancelled bool
	// History has the last events of the connection before the failure was found, as from
	// Conn.History. Error does not contain it. The errors of all operations share it.
	History inflight.History
}

func (e *BrokenError) Error() string {
	switch {
	case e.Cancelled:
		return "the connection was given up when a " + e.Op + " was cancelled: " + e.Err.Error()
	case e.Op == "" && !isFlush(e.Err):
		return "the connection broke: " + e.Err.Error()
	case e.Op == "":
		return "the connection's QP has failed, because of the peer (a key or an address that it may not use?) or of a user of the QP: " + e.Err.Error()
	}
	return "the connection broke when a " + e.Op + " failed: " + e.Err.Error()
}

// Unwrap returns Err. It returns nil if the context of a cancelled operation had ended,
// because the contexts of other operations have not, and a retry cannot succeed.
func (e *BrokenError) Unwrap() error {
	if e.Cancelled && (errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded)) {
		return nil
	}
	return e.Err
}

// Timeout reports whether the connection broke because the peer did not answer a request
// within the QP's retries, or the probe of the keepalive. It is false if a deadline of the
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

// cancelledError is the error of an operation whose cancellation has ended the connection.
type cancelledError struct {
	cause  error // why it was cancelled
	hint   string
	broken *BrokenError
}

func (e *cancelledError) Error() string {
	return e.cause.Error() + e.hint + ": the connection was given up, to take the memory back from the device"
}

// Unwrap returns the cause, and the BrokenError that later operations return.
func (e *cancelledError) Unwrap() []error { return []error{e.cause, e.broken} }

// Done returns a channel that is closed when the connection becomes unusable. This happens
// when one side has disconnected, the device was removed, an operation was cancelled, or the
// connection was closed. It also happens when the QP has failed, as soon as an event of the
// device, an invalid completion, an operation, a Query of the QP or Explain shows it. Err returns the reason.
func (c *Conn) Done() <-chan struct{} { return c.ep.over.Done() }

// Err returns nil until Done is closed. Then it returns the reason: a *DisconnectedError,
// *verbs.DeviceRemovedError or *BrokenError, or net.ErrClosed if Close came first. If no more
// events can be fetched, it returns the error of the kernel.
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

// Wait waits until one side has disconnected or the device was removed, and returns the End.
// These ends are not errors. Wait returns the End even after Close. If Close came before the
// end, the error is net.ErrClosed. If the connection is unusable for another reason (see Done),
// it continues to exist until one side disconnects.
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
		select {
		case <-c.ep.ended: // before
			return c.ep.end, nil
		default:
		}
		if err := c.ep.unusable(); err != nil {
			return End{}, c.ep.id.opError(opEvent, err)
		}
		return End{}, c.ep.id.opError(opEvent, net.ErrClosed)
	case <-ctx.Done():
		return End{}, c.ep.id.opError(opEvent, cdev.ContextError(ctx))
	}
}

// Disconnect ends the connection and waits until the peer has answered (rdma_disconnect(3)).
// The posted requests are flushed. ctx bounds only the wait. The connection ends even if ctx
// ends first.
func (c *Conn) Disconnect(ctx context.Context) (End, error) {
	cdev.NeedContext(ctx)
	// On iWARP the kernel may wait, and a context cannot interrupt it.
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

// flushError is the flush of a QP's requests where no completion reports it: no receive is posted, or the
// failure of the QP is known from an event.
type flushError struct{ qpNum uint32 }

func (flushError) Error() string { return "flushed" }

// Unwrap returns what the completion of a request would report.
func (e flushError) Unwrap() error {
	return &verbs.WCError{Status: verbs.WCWRFlushErr, QPNum: e.qpNum}
}

// isFlush reports whether an error is a flush, which does not name its cause.
func isFlush(err error) bool {
	wc, ok := errors.AsType[*verbs.WCError](err)
	return ok && wc.Status == verbs.WCWRFlushErr
}

// ended returns the error of a failed operation. If the operation was flushed, the error is the
// first cause on the connection, because a flush does not name its cause.
func (c *Conn) ended(op string, err error) error {
	id := c.ep.id
	wcErr := new(verbs.WCError)
	failed := errors.As(err, &wcErr)
	switch flushed := failed && wcErr.Status == verbs.WCWRFlushErr; {
	case errors.Is(err, net.ErrClosed):
		if err := c.removed(); err != nil {
			return id.opError(op, err)
		}
		return id.opError(op, net.ErrClosed)
	case failed && !flushed:
		if err := c.removed(); err != nil {
			return id.opError(op, err)
		}
		err = c.hinted(op, err, wcErr)
		c.ep.broke(op, err)
		return id.opError(op, err)
	case !flushed:
		return id.opError(op, err)
	}
	if err := c.unusable(); err != nil {
		return id.opError(op, err)
	}
	if id.iwarp() {
		c.ep.awaitEnd()
	}
	if state := id.State(); state == StateDisconnected || state == StateRemoved {
		// The event has been fetched, so the end will be recorded soon.
		select {
		case <-c.ep.ended:
		case <-c.ep.pumped:
			return id.opError(op, net.ErrClosed)
		}
		if err := c.unusable(); err != nil { // detected when the connection ended
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
	if op == opRecv || op == opWork || op == opConnection {
		c.awaitOperation()
	}
	if err := c.removed(); err != nil {
		return id.opError(op, err)
	}
	c.ep.broke("", err)
	return id.opError(op, c.unusable())
}

// unusable is unusable of the endpoint. If only a flush is known, it looks for the request whose failure caused the
// flush.
func (c *Conn) unusable() error {
	err := c.ep.unusable()
	if broken, ok := err.(*BrokenError); ok && broken.Op == "" && isFlush(broken.Err) {
		if failure := c.failedRequest(); failure != nil {
			c.ep.broke(opWork, failure)
			return c.ep.unusable()
		}
	}
	return err
}

// failedRequest returns the error of the first request that failed other than by a flush, with its hint. Its
// goroutine may not have reported it yet, and a detached operation has no waiting goroutine.
func (c *Conn) failedRequest() error {
	q := c.ep.ops.Load()
	if q == nil {
		return nil
	}
	_ = q.Poll() // the CQs of requests and receives may differ
	failure := q.Failure()
	if wc, ok := errors.AsType[*verbs.WCError](failure); ok {
		return c.hinted(opWork, failure, wc)
	}
	return nil
}

// qpFailed records the failure of the QP that its provider has reported, with a cause, or an event of the device or
// a query, without one.
func (c *Conn) qpFailed(cause error) {
	if c.ep.id.gate.isShut() {
		return // the QP of the program continues
	}
	if cause == nil {
		_ = c.ended(opConnection, flushError{c.qp.Num()})
		return
	}
	select {
	case <-c.ep.ended: // the first end remains
		return
	default:
	}
	if c.removed() == nil {
		c.ep.broke("", cause)
	}
}

// removed returns a *verbs.DeviceRemovedError if the kernel has removed the device. The kernel may destroy the objects
// of programs before it reports the removal. Then requests fail, or are flushed, without another cause.
func (c *Conn) removed() error {
	dev := c.ep.id.Device()
	if dev == nil {
		return nil // the ID has been destroyed
	}
	_, err := dev.GID(1, 0) // a command fails after a removal
	if removed, ok := errors.AsType[*verbs.DeviceRemovedError](err); ok {
		return removed
	}
	return nil
}

// operationGrace bounds the wait for the operation whose failure explains a flush.
const operationGrace = time.Second

// awaitOperation waits until the operations in progress have returned. The QP is in the error
// state, so the device completes them now. One of their completions may be the failure behind a
// flush that another goroutine has received. Some drivers lose completions in this state
// (docs/reference/driver-faults.md), so the wait is bounded.
func (c *Conn) awaitOperation() {
	for end := time.Now().Add(operationGrace); c.running.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
