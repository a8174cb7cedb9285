// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"context"
	"log/slog"
	"net"

	"purerdma/cm"
	"purerdma/internal/acceptor"
)

// Accepted is a connection that a Listener has accepted.
type Accepted interface {
	net.Conn
	SetLinger(sec int) error
}

// Listener is a net.Listener on a cm.Listener.
type Listener struct {
	inner *acceptor.Acceptor[Accepted]
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a Listener that answers the requests of inner and owns it. room bounds the number of
// requests that are answered at a time, as for acceptor.New. handshake accepts or rejects a request before its context
// ends. It returns an error if it has made no connection. The Listener writes this error to log, which may be
// nil.
func Listen(inner *cm.Listener, log *slog.Logger, room int, handshake func(context.Context, *cm.Request) (Accepted, error)) *Listener {
	return &Listener{acceptor.New(inner, log, room, handshake, func(conn Accepted) {
		conn.SetLinger(0)
		conn.Close()
	})}
}

// Accept waits for a connection. After Close the error wraps net.ErrClosed. No peer can make Accept fail.
// Accept returns a temporary error while this process has no file descriptors or memory for further
// connections.
func (ln *Listener) Accept() (net.Conn, error) {
	conn, err := ln.inner.Accept(context.Background())
	switch {
	case err == net.ErrClosed:
		return nil, &net.OpError{Op: "accept", Net: ln.Addr().Network(), Addr: ln.Addr(), Err: err}
	case err != nil:
		return nil, OpError("accept", err)
	}
	return conn, nil
}

// Addr returns the listener's address.
func (ln *Listener) Addr() net.Addr { return ln.inner.Addr() }

// Close stops listening. Connections that Accept has not returned are closed. It may be called more
// than once.
func (ln *Listener) Close() error {
	if err := ln.inner.Close(); err != nil {
		return OpError("close", err)
	}
	return nil
}
