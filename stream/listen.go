// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"context"
	"errors"
	"net"

	"purerdma/cm"
	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// ListenConfig listens for streams. The zero ListenConfig has the defaults.
type ListenConfig struct {
	Options
	// Private makes receives for each connection, instead of a Shared for all of them. It costs Window
	// times Slot bytes for each connection, and more time to accept one. It has no effect if
	// Options.Shared is set.
	Private bool
	// CM has the options of the connection manager, and with them the limits for peers. Its QP,
	// Receive, Shared and PD are not used.
	CM cm.ListenConfig
}

// defaultRoom bounds the connections that Accept has not returned.
const defaultRoom = 128

// Listen listens with the defaults. See ListenConfig.Listen.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return new(ListenConfig).Listen(ctx, network, address)
}

// Listen listens on address, which is "host:port" in the RDMA port space. network is as in
// Dialer.DialContext. ctx bounds the look-up of a name. Connections are of type *Conn. The error is a *net.OpError.
//
// Each request of a peer is answered on a goroutine of its own. At most 128 requests, or CM.MaxPending if it is positive,
// are answered at a time until Accept has returned the connection. At most a quarter of them are of one remote
// address. Further requests wait, up to the limits of CM. A peer without the hello of this package is refused, with the reason as private data, and Accept does not return an error for it. No peer can make
// Accept fail. Accept returns a temporary error while this process has no file descriptors or memory for
// further connections. CM.Host.Log gets a record of other failures to answer a request at level Warn. There
// is at most one a second for failures of peers, and one for failures of this process.
//
// Close of the listener closes the connections that Accept has not returned. The other connections
// continue.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	opts, err := lc.Options.withDefaults()
	if err == nil {
		network, err = streamconn.Network(network)
	}
	ln := &listener{}
	if err == nil && opts.Shared == nil && !lc.Private {
		ln.own = NewShared(SharedConfig{Slot: opts.Slot, Spin: opts.Spin})
		opts.Shared = ln.own
	}
	if err == nil {
		err = opts.checkReceives()
	}
	if err != nil {
		return nil, streamconn.OpError("listen", err)
	}
	config := lc.CM
	config.QP, config.PD, config.Receive, config.Shared = opts.qp(), nil, opts.receive(), nil
	if opts.Shared != nil {
		config.Shared = opts.Shared.cm
	}
	inner, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, streamconn.OpError("listen", err)
	}
	room := cmp.Or(max(0, config.MaxPending), defaultRoom)
	ln.Listener = streamconn.Listen(inner, cmp.Or(config.Host, verbs.DefaultHost()).Log, room, func(ctx context.Context, req *cm.Request) (streamconn.Accepted, error) {
		return accept(ctx, req, opts)
	})
	return ln, nil
}

// listener is a streamconn.Listener with its Shared.
type listener struct {
	*streamconn.Listener
	own *Shared // or nil
}

// Close implements net.Listener. Accepted connections continue, and the Shared is freed with the last of
// them.
func (ln *listener) Close() error {
	err := ln.Listener.Close()
	if ln.own != nil {
		if sharedErr := ln.own.Close(); err == nil && sharedErr != nil {
			err = streamconn.OpError("close", sharedErr)
		}
	}
	return err
}

// accept answers a request. It returns an error if it has rejected the request, or if the connection was not
// established. A rejection has the reason as private data. After other errors the peer gets the end of the
// connection.
func accept(ctx context.Context, req *cm.Request, opts Options) (*Conn, error) {
	peer, err := parseHello(req.PrivateData())
	if err != nil {
		reject(req, err)
		return nil, err
	}
	l, err := newLink(ctx, req, opts)
	if err != nil {
		reject(req, err)
		return nil, err
	}
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: l.hello(), RNRRetryCount: opts.rnrRetry})
	if err != nil {
		return nil, errors.Join(err, l.leaveShared())
	}
	l.conn = conn
	if err := l.start(ctx, conn, peer, true); err != nil {
		return nil, errors.Join(err, l.freeAll())
	}
	return &Conn{stream: l.stream, l: l}, nil
}

// maxReason is the length of the private data of a rejection on InfiniBand and RoCE, in bytes.
const maxReason = 148

// reject refuses a request with a reason.
func reject(req *cm.Request, reason error) {
	text := "stream: " + reason.Error()
	_ = req.Reject([]byte(text[:min(len(text), maxReason)])) // the peer may have left
}
