// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"cmp"
	"context"
	"errors"
	"net"

	"purerdma/cm"
	"purerdma/internal/acceptor"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// ListenConfig listens for connections. The zero ListenConfig has the defaults.
type ListenConfig struct {
	Options
	// CM has the options of the connection manager, and with them the limits for peers. Its QP,
	// Receive and Shared are not used.
	CM cm.ListenConfig
}

// defaultRoom bounds the connections that Accept has not returned.
const defaultRoom = 128

// Listener accepts connections. Its methods may be called concurrently.
type Listener struct {
	inner *acceptor.Acceptor[*Conn]
}

// Listen listens with the defaults. See ListenConfig.Listen.
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, network, address)
}

// Listen listens on address, which is "host:port" in the RDMA port space. network is "tcp", "tcp4"
// or "tcp6". ctx bounds the look-up of a name. The error is the error of cm.ListenConfig.Listen.
//
// Each request of a peer is answered on a goroutine of its own, so a slow peer does not delay the others. At most 128
// requests, or CM.MaxPending if it is positive, are answered at a time until Accept has returned the connection. At most
// a quarter of them are of one remote address. Further requests wait, up to the limits of CM. A peer without the
// hello of this package is refused, with the reason as private data. Accept does not return it. CM.Host.Log
// gets a record of failures to answer a request at level Warn. There is at most one a second for failures of
// peers, and one for failures of this process.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	opts, err := lc.Options.withDefaults()
	if err != nil {
		return nil, &cm.OpError{Op: opListen, Err: err}
	}
	config := lc.CM
	config.QP, config.Receive, config.Shared = opts.qp(), opts.receive(), nil
	inner, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	room := cmp.Or(max(0, config.MaxPending), defaultRoom)
	log := cmp.Or(config.Host, verbs.DefaultHost()).Log
	return &Listener{acceptor.New(inner, log, room, func(ctx context.Context, req *cm.Request) (*Conn, error) {
		return accept(ctx, req, opts)
	}, func(c *Conn) { c.Close() })}, nil
}

// accept answers a request. If that fails, the peer gets a rejection with the reason, or the end of the
// connection.
func accept(ctx context.Context, req *cm.Request, opts Options) (*Conn, error) {
	peer, err := parseHello(req.PrivateData())
	if err != nil {
		text := "msg: " + err.Error()
		_ = req.Reject([]byte(text[:min(len(text), maxReason)])) // the peer may have left
		return nil, err
	}
	conn, err := req.Accept(ctx, nil, opts.param(nil))
	if err != nil {
		return nil, err
	}
	c, err := newConn(conn, opts, peer, true)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// maxReason is the length of the private data of a rejection on InfiniBand and RoCE, in bytes.
const maxReason = 148

// Accept waits for a connection. It returns the error of ctx if that ends first, and net.ErrClosed after
// Close. No peer can make it fail. It fails temporarily, as cm.Listener.Accept does, if this process has no
// file descriptors or memory for further connections. The caller closes the connection.
func (ln *Listener) Accept(ctx context.Context) (*Conn, error) {
	cdev.NeedContext(ctx)
	c, err := ln.inner.Accept(ctx)
	if _, ok := errors.AsType[*cm.OpError](err); err != nil && !ok {
		err = &cm.OpError{Op: opAccept, Local: ln.inner.Addr(), Err: err}
	}
	return c, err
}

// Addr returns the listener's address, with the port that was chosen if the port was 0.
func (ln *Listener) Addr() net.Addr { return ln.inner.Addr() }

// Close stops listening. It closes the connections that Accept has not returned. The others continue.
// Close may be called more than once.
func (ln *Listener) Close() error { return ln.inner.Close() }
