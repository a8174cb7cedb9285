// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"errors"
	"io"
	"net"
	"syscall"

	"purerdma/cm"
	"purerdma/verbs"
)

// ResetError is the error of a connection that has failed. It wraps syscall.ECONNRESET and the cause.
type ResetError struct {
	// Err is the cause, nil if the peer has closed the connection.
	Err error
}

func (e *ResetError) Error() string {
	if e.Err == nil {
		return syscall.ECONNRESET.Error()
	}
	return syscall.ECONNRESET.Error() + ": " + e.Err.Error()
}

// Unwrap returns ECONNRESET and the cause.
func (e *ResetError) Unwrap() []error {
	if e.Err == nil {
		return []error{syscall.ECONNRESET}
	}
	return []error{syscall.ECONNRESET, e.Err}
}

// Timeout reports whether the peer has not answered in time.
func (e *ResetError) Timeout() bool {
	if wc, ok := errors.AsType[*verbs.WCError](e.Err); ok && wc.Status == verbs.WCRetryExcErr {
		return true // the peer's device has not acknowledged a message
	}
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Err)
	return ok && t.Timeout()
}

// Cause converts the error of package cm or verbs at the end of a connection to the error of its users.
func Cause(err error) error {
	if oe, ok := errors.AsType[*cm.OpError](err); ok {
		err = oe.Err
	}
	switch {
	case errors.Is(err, net.ErrClosed): // by Close, which has its own error for all calls
		return err
	case errors.Is(err, io.EOF):
		return &ResetError{}
	}
	return &ResetError{Err: err}
}
