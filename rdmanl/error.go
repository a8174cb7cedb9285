// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"syscall"
)

// OpError is the error of this package.
type OpError struct {
	Op     string // failed operation, as "list QPs"
	Object string // its object, as "device 2 port 1", or "" if there is none
	Err    error  // cause. For a request that the kernel refused, a syscall.Errno
	// Message is the explanation that came with the errno (extended acknowledgement), usually "".
	Message string
}

// Error returns "op object: cause".
func (e *OpError) Error() string {
	s := e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Err.Error()
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	return s
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// Errors of answers that the kernel should not send. They wrap an errno.
var (
	errNoAnswer = &answerError{"no message in the answer", syscall.EBADMSG}
	errTooLong  = &answerError{"the answer has too many objects", syscall.E2BIG}
	errEndless  = &answerError{"an object is larger than a message", syscall.EMSGSIZE}
	errChanging = &answerError{"the list changed during each attempt", syscall.EINTR}
)

// answerError is an answer without a usable result.
type answerError struct {
	text  string
	errno syscall.Errno
}

func (e *answerError) Error() string { return e.text }

func (e *answerError) Unwrap() error { return e.errno }

// errInterrupted reports that a list changed while the kernel returned it (NLM_F_DUMP_INTR).
var errInterrupted = errors.New("the list changed")

// refusal is an errno with the kernel's explanation.
type refusal struct {
	errno   syscall.Errno
	message string
}

func (e *refusal) Error() string { return e.errno.Error() }

func (e *refusal) Unwrap() error { return e.errno }
