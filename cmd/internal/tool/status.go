// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

// Statuses of the C programs: what they return for a call that failed, and for
// memory that could not be had.
const (
	StatusFailed = -1
	StatusNoMem  = -12 // -ENOMEM
	StatusInval  = -22 // -EINVAL
)

// StatusError is an error with the status that the C program ends with for it.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// Status returns the status that a C program ends with: 0 without an error, -1
// for one that has no other.
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

// EventError is the error of an event that says that connecting has failed, with
// the event's status.
func EventError(ev *cm.Event) error {
	err := ev.Err()
	if err == nil {
		err = fmt.Errorf("%v", ev)
	}
	return &StatusError{Status: ev.Status, Err: err}
}
