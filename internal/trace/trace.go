// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// Variable is the environment variable that turns traces on, to standard error,
// if it is neither empty nor "0".
const Variable = "RDMA_TRACE"

// Tracer logs commands. Its methods may be called concurrently.
type Tracer struct {
	logger *slog.Logger

	mu sync.Mutex
	w  io.Writer // in place of the logger
}

// New returns a Tracer that writes lines to w, each with one Write.
func New(w io.Writer) *Tracer { return &Tracer{w: w} }

// Select returns the Tracer that logs to l or, if that is nil, as the environment requests now. It
// returns nil if tracing is off.
func Select(l *slog.Logger) *Tracer {
	if l != nil {
		return &Tracer{logger: l}
	}
	if v := os.Getenv(Variable); v != "" && v != "0" {
		return New(os.Stderr)
	}
	return nil
}

// Command logs one command, which device names and which has ended with err. in and out are nil, a
// List, or pointers to structs. out is omitted if err is not nil. A logger gets it at level Debug.
func (t *Tracer) Command(device, name string, in, out any, err error, took time.Duration) {
	if t.logger != nil {
		t.log(device, name, in, out, err, took)
		return
	}
	b := make([]byte, 0, 256)
	b = append(b, device...)
	b = append(b, ": "...)
	b = append(b, name...)
	b = append(b, '(')
	b = appendList(b, in)
	b = append(b, ") = "...)
	switch {
	case err != nil:
		b = append(b, errorText(err)...)
	case out == nil:
		b = append(b, '0')
	default:
		b = append(b, '{')
		b = appendList(b, out)
		b = append(b, '}')
	}
	b = append(b, " <"...)
	b = append(b, took.Round(time.Microsecond/10).String()...)
	b = append(b, ">\n"...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.Write(b)
}

func (t *Tracer) log(device, name string, in, out any, err error, took time.Duration) {
	ctx := context.Background()
	if !t.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("device", device),
		slog.String("in", string(appendList(nil, in))),
		slog.Duration("took", took),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", errorText(err)))
	} else {
		attrs = append(attrs, slog.String("out", string(appendList(nil, out))))
	}
	t.logger.LogAttrs(ctx, slog.LevelDebug, name, attrs...)
}

// errorText puts the name of the errno, which people search for, before its text.
func errorText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := errnoName(errno); name != "" {
			return name + " (" + err.Error() + ")"
		}
	}
	return "error (" + err.Error() + ")"
}
