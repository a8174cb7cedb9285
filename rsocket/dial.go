// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"context"
	"errors"
	"net"

	"purerdma/cm"
	"purerdma/internal/streamconn"
)

// Dialer connects to rsockets. The zero Dialer has the defaults.
type Dialer struct {
	Options
	// CM has the options of the connection manager. Its QP and KeepAlive, and the PrivateData of its
	// Param, are not used. The peer writes to a buffer that is registered in CM.PD, so read
	// [cm.Dialer.PD] before you share one.
	CM cm.Dialer
}

// DialContext connects to an rsocket that listens on address, which is "host:port" in the RDMA port
// space. network is "tcp", "tcp4" or "tcp6", or "rdma", the network of a [cm.Addr] with an IP address. The net.Conn
// is a *[Conn]. ctx bounds connecting only. The error is a *net.OpError with the cause that [cm.Dialer.Dial] returns.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dial(ctx, func(dialer *cm.Dialer) (*cm.Resolved, error) {
		network, err := streamconn.Network(network)
		if err != nil {
			return nil, err
		}
		return dialer.Resolve(ctx, network, address)
	})
}

// DialAddr is like DialContext for an address that needs no look-up.
func (d *Dialer) DialAddr(ctx context.Context, addr cm.Addr) (net.Conn, error) {
	return d.dial(ctx, func(dialer *cm.Dialer) (*cm.Resolved, error) {
		return dialer.ResolveAddr(ctx, cm.PortSpaceTCP, addr)
	})
}

func (d *Dialer) dial(ctx context.Context, resolve func(*cm.Dialer) (*cm.Resolved, error)) (net.Conn, error) {
	opts, err := d.Options.withDefaults()
	if err != nil {
		return nil, streamconn.OpError("dial", err)
	}
	dialer := d.CM
	dialer.KeepAlive = -1
	r, err := resolve(&dialer)
	if err != nil {
		return nil, streamconn.OpError("dial", err)
	}
	c, err := connect(ctx, r, dialer.Param, opts)
	if err != nil {
		return nil, streamconn.OpError("dial", err)
	}
	return c, nil
}

// connect connects to a resolved destination. It closes r if it fails.
func connect(ctx context.Context, r *cm.Resolved, p *cm.ConnParam, opts Options) (*Conn, error) {
	l, err := newLink(r, opts)
	if err != nil {
		r.Close()
		return nil, errors.Join(err, l.end())
	}
	param := connParam(p)
	if r.LocalAddr().IB != (cm.IBAddr{}) {
		param.PrivateData = make([]byte, ibHeaderLen)
	}
	param.PrivateData = l.connData().append(param.PrivateData)
	conn, err := r.Connect(ctx, nil, param)
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	peer, err := parseConnData(conn.PrivateData())
	if err == nil {
		err = l.setPeer(peer)
	}
	if err != nil {
		err = &cm.OpError{Op: "connect", Local: conn.LocalAddr(), Remote: conn.RemoteAddr(), Err: err}
		return nil, errors.Join(err, conn.Close(), l.end())
	}
	return l.start(conn, false), nil
}

// connParam returns a copy of the program's parameters without private data.
func connParam(p *cm.ConnParam) *cm.ConnParam {
	var param cm.ConnParam
	if p != nil {
		param = *p
	}
	param.PrivateData = nil
	param.FlowControl = true
	return &param
}
