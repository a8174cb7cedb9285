// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"errors"

	"purerdma/cm"
)

// Dialer connects to a Listener. The zero Dialer has the defaults.
type Dialer struct {
	Options
	// CM has the options of the connection manager, such as KeepAlive. Its QP, Receive and Shared, and
	// the PrivateData of its Param, are not used.
	CM cm.Dialer
}

// Dial connects with the defaults. See Dialer.Dial.
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, network, address)
}

// Dial connects to address, which is "host:port" in the RDMA port space. network is "tcp", "tcp4" or
// "tcp6". ctx bounds connecting only. The error is the error of cm.Dialer.Dial. If the peer is no
// Listener of this package, it wraps a *cm.RejectError or syscall.EPROTO.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	opts, err := d.Options.withDefaults()
	if err != nil {
		return nil, &cm.OpError{Op: opDial, Err: err}
	}
	dialer := d.CM
	dialer.QP, dialer.Receive, dialer.Shared, dialer.Param = opts.qp(), opts.receive(), nil, opts.param(d.CM.Param)
	conn, err := dialer.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	peer, err := parseHello(conn.PrivateData())
	var c *Conn
	if err == nil {
		c, err = newConn(conn, opts, peer, false)
	}
	if err != nil {
		return nil, &cm.OpError{Op: opDial, Local: conn.LocalAddr(), Remote: conn.RemoteAddr(), Err: errors.Join(err, conn.Close())}
	}
	return c, nil
}
