// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"net"
	"time"

	"purerdma/cm"
)

// The pauses of a Backoff, as in net/http's server.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// Backoff paces a server that is out of file descriptors or memory until a leaving client frees
// some. The zero Backoff is ready for use.
type Backoff struct{ pause time.Duration }

// Wait reports whether a server should continue after an error. It pauses before it returns
// true, longer after each failure until Reset. It returns false when ctx has ended.
func (b *Backoff) Wait(ctx context.Context, err error) bool {
	if !temporary(err) || ctx.Err() != nil {
		return false
	}
	b.pause = min(max(2*b.pause, firstPause), maxPause)
	select {
	case <-time.After(b.pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Reset records a success.
func (b *Backoff) Reset() { b.pause = 0 }

// temporary reports whether an operation may succeed later. A timeout belongs to the caller. err is
// the error of package cm or of a net.Listener.
func temporary(err error) bool {
	oe, ok := errors.AsType[interface {
		error
		Timeout() bool
		Temporary() bool
	}](err)
	return ok && oe.Temporary() && !oe.Timeout()
}

// Accept calls ln.Accept and waits while the process is out of descriptors or memory. It passes
// each such error to report, unless report is nil.
func Accept(ctx context.Context, ln *cm.Listener, report func(error)) (*cm.Request, error) {
	return accept(ctx, func() (*cm.Request, error) { return ln.Accept(ctx) }, report)
}

// AcceptConn is Accept for other listeners. The caller closes ln when ctx ends.
func AcceptConn(ctx context.Context, ln net.Listener, report func(error)) (net.Conn, error) {
	return accept(ctx, ln.Accept, report)
}

// accept implements Accept and AcceptConn.
func accept[C any](ctx context.Context, next func() (C, error), report func(error)) (C, error) {
	var wait Backoff
	for {
		conn, err := next()
		if err != nil && report != nil && temporary(err) {
			report(err)
		}
		if !wait.Wait(ctx, err) {
			return conn, err
		}
	}
}
