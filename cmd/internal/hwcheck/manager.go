// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"net/netip"

	"purerdma/cm"
)

// start opens the end. On iWARP it listens, because the request for the connection determines the
// device.
func (e *farEnd) start(ctx context.Context, o *Opened) error {
	dev, err := e.target.Host.Open(e.target.Device)
	if err != nil {
		return err
	}
	needsManager := iwarp(dev)
	if err := dev.Close(); err != nil {
		return err
	}
	if needsManager {
		return e.listen(ctx, o)
	}
	if err := e.open(); err != nil {
		return err
	}
	o.Address = e.own
	o.MTU, err = e.portMTU()
	return err
}

// listen accepts one connection.
func (e *farEnd) listen(ctx context.Context, o *Opened) error {
	lc := cm.ListenConfig{Host: e.target.Host, KeepAlive: -1}
	ln, err := lc.Listen(ctx, "tcp", netip.AddrPortFrom(e.target.Addr, 0).String())
	if err != nil {
		return err
	}
	e.listener, e.accepted = ln, make(chan error, 1)
	o.Listen = ln.Addr().String()
	go func() { e.accepted <- e.accept(ctx, ln) }()
	return nil
}

func (e *farEnd) accept(ctx context.Context, ln *cm.Listener) error {
	r, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	err = e.prepare(r)
	if err == nil {
		e.conn, err = r.Accept(ctx, e.qp, &cm.ConnParam{ResponderResources: rdAtomic, InitiatorDepth: rdAtomic})
	}
	if err != nil {
		return errors.Join(err, r.Close())
	}
	e.later(e.conn.Close)
	return nil
}

// prepare builds the end for a pending connection.
func (e *end) prepare(p cm.PendingConn) error {
	if err := e.build(p.Device()); err != nil {
		return err
	}
	return p.Init(e.qp)
}

// dial connects the end to a listening far end.
func (e *end) dial(ctx context.Context, address string) error {
	d := cm.Dialer{Host: e.target.Host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(e.target.Addr, 0)), KeepAlive: -1}
	r, err := d.Resolve(ctx, "tcp", address)
	if err != nil {
		return err
	}
	err = e.prepare(r)
	if err == nil {
		e.conn, err = r.Connect(ctx, e.qp, &cm.ConnParam{
			ResponderResources: rdAtomic, InitiatorDepth: rdAtomic, RetryCount: e.cfg.RetryCount, RNRRetryCount: e.cfg.RNRRetryCount,
		})
	}
	if err != nil {
		return errors.Join(err, r.Close())
	}
	e.later(e.conn.Close)
	return nil
}
