// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// printer prints the output of the program.
type printer struct {
	tool.UI
	debug bool
}

func newUI(stdout, stderr io.Writer) *printer {
	return &printer{UI: tool.UI{Name: "rping", Out: stdout, Err: stderr}}
}

// debugf prints the C program's -d output, also to standard output.
func (u *printer) debugf(format string, args ...any) {
	if u.debug {
		u.Printf(format, args...)
	}
}

// pingError is a failure after the connection was established. The C program has its own
// message for it.
type pingError struct {
	side string // "client" or "server"
	err  error
}

func (e *pingError) Error() string { return "rping " + e.side + " failed: " + e.err.Error() }
func (e *pingError) Unwrap() error { return e.err }

// fail prints the error that ended the program.
func (u *printer) fail(err error) {
	u.explain(err)
	if _, ok := errors.AsType[*pingError](err); !ok {
		err = fmt.Errorf("rping: %w", err)
	}
	u.Errorf("%v\n", err)
}

// explain prints the lines that the C program has for a failure.
func (u *printer) explain(err error) {
	var (
		rejected    *cm.RejectError
		unreachable *cm.UnreachableError
		removed     *verbs.DeviceRemovedError
		wc          *verbs.WCError
		bogus       *bogusMessageError
	)
	event := func(t cm.EventType, status int) { u.Errorf("cma event %v, error %d\n", t, status) }
	switch {
	case errors.Is(err, errMismatch):
		u.Errorf("data mismatch!\n")
	case errors.As(err, &rejected):
		event(cm.EventRejected, rejected.Status)
	case errors.As(err, &unreachable):
		event(unreachable.Event, unreachable.Status)
	case errors.As(err, &removed):
		u.Errorf("cma detected device removal!!!!\n")
	case errors.As(err, &wc):
		u.Errorf("cq completion failed status %d\n", uint32(wc.Status))
	case errors.As(err, &bogus):
		u.Errorf("%v\n", bogus)
	}
}
