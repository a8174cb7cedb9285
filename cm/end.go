// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"syscall"
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

// DisconnectedError says that a connection ended before the operation did.
type DisconnectedError struct {
	Status int  // 0, or a negative errno if the peer did not answer
	Local  bool // this side has disconnected, not the peer
}

func (e *DisconnectedError) Error() string {
	who := "the peer has disconnected"
	if e.Local {
		who = "this side has disconnected"
	}
	if e.Status < 0 {
		return who + ": " + syscall.Errno(-e.Status).Error()
	}
	return who
}

// Is reports whether target is what the same means for a TCP connection:
// syscall.ECONNRESET if the peer has disconnected, net.ErrClosed if this side has.
func (e *DisconnectedError) Is(target error) bool {
	if e.Local {
		return target == net.ErrClosed
	}
	return target == syscall.ECONNRESET
}

// Unwrap returns the errno of the kernel, nil if the other side has answered.
func (e *DisconnectedError) Unwrap() error { return errno(e.Status) }

// GivenUpError says that a connection is of no more use because an operation on
// it was cancelled: its QP was moved to the error state, which alone takes the
// memory of the operation back from the device.
type GivenUpError struct {
	Op  string // "send", "read", "write", "probe" or "keepalive"
	Err error  // why it was cancelled
}

func (e *GivenUpError) Error() string {
	return "the connection was given up when a " + e.Op + " was cancelled: " + e.Err.Error()
}

// Unwrap returns why the operation was cancelled, but nil if its context had ended:
// the contexts of other operations have not, and to try again is of no use.
func (e *GivenUpError) Unwrap() error {
	if errors.Is(e.Err, context.Canceled) || errors.Is(e.Err, context.DeadlineExceeded) {
		return nil
	}
	return e.Err
}

// Timeout returns false, also if it was a deadline that has cancelled the operation:
// nothing that is tried again will succeed.
func (e *GivenUpError) Timeout() bool { return false }

// BrokenError says that a connection is of no more use because its QP has failed.
// The kernel's connection manager does not see that: the connection stands until
// one side disconnects.
type BrokenError struct {
	// Op is the operation whose failure came first: "send", "receive", "read",
	// "write", "probe", "keepalive", or "work request" for one of those that Conn.Explain was
	// given. It is "" if only flushes tell of the failure, as on the
	// side whose memory the peer was not allowed to touch.
	Op string
	// Err is that failure: it wraps a *verbs.WCError, whose Status is the cause.
	Err error
}

func (e *BrokenError) Error() string {
	if e.Op == "" {
		return "the connection's QP is in the error state, where the device or a user of the QP has moved it: " + e.Err.Error()
	}
	return "the connection broke when a " + e.Op + " failed: " + e.Err.Error()
}

// Unwrap returns the failure that came first.
func (e *BrokenError) Unwrap() error { return e.Err }
