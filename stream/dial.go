// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn"
)

// Dialer connects to a Listener. The zero Dialer has the defaults.
type Dialer struct {
	Options
	// CM has the options of the connection manager, such as KeepAlive. Its QP, Receive, Shared and PD,
	// and the PrivateData of its Param, are not used.
	CM cm.Dialer
	// Fallback connects over TCP to the same host and port if connecting over RDMA fails, unless the
	// context has ended. The connection is then a *TCPConn, which has the error of RDMA. If the context has a
	// deadline, RDMA gets half of the time until then, so that a peer without an answer leaves time for TCP. If
	// both fail, the error of DialContext wraps both causes, and its Timeout method reports a timeout of TCP.
	// nil means that DialContext fails without RDMA.
	Fallback *net.Dialer
}

// Dial connects with the defaults. See Dialer.DialContext.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, address)
}

// DialContext connects to address, which is "host:port" in the RDMA port space. network is "tcp",
// "tcp4" or "tcp6", or "rdma", the network of a cm.Addr with an IP address. The net.Conn is a *Conn, or
// with Fallback possibly a *TCPConn. ctx bounds connecting only. The error is a *net.OpError with the
// cause that cm.Dialer.Dial returns. If the peer is no Listener of this package, the cause is a
// *cm.RejectError or wraps syscall.EPROTO.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	network, err := streamconn.Network(network)
	if err != nil {
		return nil, streamconn.OpError("dial", err)
	}
	if d.Fallback == nil {
		conn, err := d.dial(ctx, network, address)
		if err != nil {
			return nil, streamconn.OpError("dial", err)
		}
		return conn, nil
	}
	half, cancel := halfTime(ctx)
	conn, err := d.dial(half, network, address)
	cancel()
	if err == nil {
		return conn, nil
	}
	oe := streamconn.OpError("dial", err)
	if ctx.Err() != nil {
		return nil, oe
	}
	tcp, err := d.Fallback.DialContext(ctx, network, address)
	if err != nil {
		oe.Err = &fallbackError{rdma: oe.Err, tcp: err}
		return nil, oe
	}
	return &TCPConn{TCPConn: tcp.(*net.TCPConn), Cause: oe}, nil
}

// halfTime returns a context that ends after half of the time that ctx leaves.
func halfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// fallbackError is the cause of a dial that has failed over RDMA and over TCP.
type fallbackError struct{ rdma, tcp error }

func (e *fallbackError) Error() string { return e.rdma.Error() + "; over TCP: " + e.tcp.Error() }

// Unwrap returns both errors.
func (e *fallbackError) Unwrap() []error { return []error{e.rdma, e.tcp} }

// Timeout reports whether TCP, which was tried last, has reached a deadline.
func (e *fallbackError) Timeout() bool {
	t, ok := errors.AsType[net.Error](e.tcp)
	return ok && t.Timeout()
}

// TCPConn is a connection over TCP, because connecting over RDMA has failed: see Dialer.Fallback. It has all
// methods of the net.TCPConn.
type TCPConn struct {
	*net.TCPConn
	// Cause is the error of connecting over RDMA.
	Cause error
}

// RDMA returns false. Conn.RDMA returns true.
func (c *TCPConn) RDMA() bool { return false }

func (d *Dialer) dial(ctx context.Context, network, address string) (*Conn, error) {
	opts, err := d.Options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := opts.checkReceives(); err != nil {
		return nil, err
	}
	dialer := d.CM
	dialer.QP, dialer.PD, dialer.Receive, dialer.Shared = opts.qp(), nil, opts.receive(), nil
	if opts.Shared != nil {
		dialer.Shared = opts.Shared.cm
	}
	r, err := dialer.Resolve(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return connect(ctx, r, dialer.Param, opts)
}

// connect connects to a resolved destination. Its caller closes r.
func connect(ctx context.Context, r *cm.Resolved, p *cm.ConnParam, opts Options) (*Conn, error) {
	l, err := newLink(ctx, r, opts)
	if err != nil {
		return nil, err
	}
	var param cm.ConnParam
	if p != nil {
		param = *p
	}
	param.PrivateData = l.hello()
	param.RNRRetryCount = cmp.Or(opts.rnrRetry, param.RNRRetryCount)
	l.conn, err = r.Connect(ctx, nil, &param)
	if err != nil {
		return nil, errors.Join(err, l.leaveShared())
	}
	peer, err := parseHello(l.conn.PrivateData())
	if err != nil {
		err = fmt.Errorf("the acceptance of %v: %w", l.conn.RemoteAddr(), err)
	} else {
		err = l.start(ctx, l.conn, peer, false)
	}
	if err != nil {
		return nil, errors.Join(err, l.freeAll())
	}
	return &Conn{stream: l.stream, l: l}, nil
}
