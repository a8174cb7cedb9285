// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"syscall"

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
