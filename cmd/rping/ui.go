// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"purerdma/cm"
	"purerdma/verbs"
)

// ui is where the program speaks. Each call writes once, so that lines of
// several clients do not mix.
type ui struct {
	out, err io.Writer
	debug    bool

	mu     sync.Mutex
	failed error // the first failure to write to out
}

// printf prints to standard output. A failure to do so, as on a full disk, ends
// the pings and the program's success.
func (u *ui) printf(format string, args ...any) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := fmt.Fprintf(u.out, format, args...); err != nil && u.failed == nil {
		u.failed = fmt.Errorf("standard output: %w", err)
	}
	return u.failed
}

func (u *ui) errorf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.err, format, args...)
}

// debugf prints what the C program prints with -d, to standard output as there.
func (u *ui) debugf(format string, args ...any) {
	if u.debug {
		u.printf(format, args...)
	}
}

// pingError is a failure between the connection and its end, which the C program
// announces in its own words.
type pingError struct {
	side string // "client" or "server"
	err  error
}

func (e *pingError) Error() string { return "rping " + e.side + " failed: " + e.err.Error() }
func (e *pingError) Unwrap() error { return e.err }

// fail prints what the program failed of.
func (u *ui) fail(err error) {
	u.explain(err)
	if _, ok := errors.AsType[*pingError](err); !ok {
		err = fmt.Errorf("rping: %w", err)
	}
	u.errorf("%v\n", err)
}

func (u *ui) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failed
}

// explain prints the lines that the C program has for a failure.
func (u *ui) explain(err error) {
	var (
		rejected    *cm.RejectError
		unreachable *cm.UnreachableError
		failed      *cm.ConnectError
		removed     *verbs.DeviceRemovedError
		wc          *verbs.WCError
		bogus       *bogusMessageError
	)
	event := func(t cm.EventType, status int) { u.errorf("cma event %v, error %d\n", t, status) }
	switch {
	case errors.Is(err, errMismatch):
		u.errorf("data mismatch!\n")
	case errors.As(err, &rejected):
		event(cm.EventRejected, rejected.Status)
	case errors.As(err, &unreachable):
		event(unreachable.Event, unreachable.Status)
	case errors.As(err, &failed):
		event(cm.EventConnectError, failed.Status)
	case errors.As(err, &removed):
		u.errorf("cma detected device removal!!!!\n")
	case errors.As(err, &wc):
		u.errorf("cq completion failed status %d\n", uint32(wc.Status))
	case errors.As(err, &bogus):
		u.errorf("%v\n", bogus)
	}
}
