// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// conn is an established connection: a *cm.Conn, or with -q a *selfConn.
type conn interface {
	ID() *cm.ID
	// Done is closed when the peer or the device has ended the connection. Wait returns the
	// cause.
	Done() <-chan struct{}
	Wait(ctx context.Context) (cm.End, error)
	Disconnect(ctx context.Context) (cm.End, error)
	Explain(err error) error
	Close() error
}

// pending is a connection that is not yet established. It ends with finish or Close.
type pending interface {
	Device() *verbs.Device
	// Init moves a QP to INIT so that receives can be posted.
	Init(qp *verbs.QP) error
	// finish connects or accepts. Afterwards the pending connection is used up, whatever the
	// result is.
	finish(ctx context.Context, qp *verbs.QP) (conn, error)
	Close() error
}

// listener returns the connections that clients request.
type listener interface {
	accept(ctx context.Context) (pending, string, error)
	Close() error
}

const (
	backlog        = 3
	resolveTimeout = 2 * time.Second
)

// connParam returns the parameters that the C program connects with.
func connParam() *cm.ConnParam {
	return &cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}
}

// errNoReads reports a client that the server cannot serve, because the server has to read from
// it.
var errNoReads = errors.New("the client serves no RDMA READ: its responder resources are 0")

// probePeriod is the time that a client is idle before it probes the server. The probe makes siw
// deliver a first message that it has kept (docs/reference/driver-faults.md).
const probePeriod = 15 * time.Second

// dial and listen establish connections through cm.

func dial(ctx context.Context, opt *options) (pending, error) {
	src, dst := endpoints(opt)
	d := cm.Dialer{LocalAddr: src, ResolveTimeout: resolveTimeout, KeepAlive: probePeriod}
	r, err := d.Resolve(ctx, "tcp", dst.String())
	if err != nil {
		return nil, err
	}
	return resolved{r}, nil
}

type resolved struct{ *cm.Resolved }

func (r resolved) finish(ctx context.Context, qp *verbs.QP) (conn, error) {
	c, err := r.Connect(ctx, qp, connParam())
	if err != nil {
		return nil, err
	}
	return c, nil
}

func listen(_ context.Context, opt *options) (listener, error) {
	_, local := endpoints(opt)
	ln, err := (&cm.ListenConfig{Backlog: backlog}).ListenAddr(cm.PortSpaceTCP, local)
	if err != nil {
		return nil, err
	}
	return managedListener{ln}, nil
}

type managedListener struct{ *cm.Listener }

func (l managedListener) accept(ctx context.Context) (pending, string, error) {
	req, err := l.Accept(ctx)
	if err != nil {
		return nil, "", err
	}
	return request{req}, req.RemoteAddr().String(), nil
}

type request struct{ *cm.Request }

func (r request) finish(ctx context.Context, qp *verbs.QP) (conn, error) {
	if r.PeerParam().OutgoingReads == 0 {
		r.Reject(nil)
		return nil, errNoReads
	}
	c, err := r.Accept(ctx, qp, tool.NullConnParam())
	if err != nil {
		return nil, err
	}
	return c, nil
}

// endpoints returns the address of -I, if any, and the address to listen on or connect to. The
// default of -a is the IPv4 wildcard, which means this host to a client.
func endpoints(opt *options) (source, addr cm.Addr) {
	ip := opt.addr
	if !ip.IsValid() {
		ip = netip.IPv4Unspecified()
	}
	if opt.source.IsValid() {
		source = cm.AddrFrom(netip.AddrPortFrom(opt.source, 0))
	}
	return source, cm.AddrFrom(netip.AddrPortFrom(ip, opt.port))
}
