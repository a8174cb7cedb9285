// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

// Statuses of the C programs for a failed call and for failed memory allocation.
const (
	StatusFailed = -1
	StatusNoMem  = -12 // -ENOMEM
	StatusInval  = -22 // -EINVAL
)

// StatusError is an error with the C program's exit status for it.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// Status returns the exit status of a C program: 0 for nil, and -1 for an error without a
// status.
func Status(err error) int {
	if err == nil {
		return 0
	}
	if se, ok := errors.AsType[*StatusError](err); ok {
		return se.Status
	}
	if code, ok := errors.AsType[addrinfo.EAI](err); ok {
		return int(code)
	}
	return StatusFailed
}

// EventError returns an error for an event of a failed connection attempt, with the event's
// status.
func EventError(ev *cm.Event) error {
	err := ev.Err()
	if err == nil {
		err = fmt.Errorf("%v", ev)
	}
	return &StatusError{Status: ev.Status, Err: err}
}
