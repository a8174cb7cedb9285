// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"purerdma/cm"
	"purerdma/verbs"
)

// cmClient connects by the connection manager.
type cmClient struct {
	cmControl
	dialer  cm.Dialer
	address string
}

// dialCM makes the connection of control.
func dialCM(ctx context.Context, o *options) (clientWay, error) {
	c := &cmClient{address: o.address()}
	if o.source != "" {
		addr, err := netip.ParseAddr(o.source)
		if err != nil {
			return nil, fmt.Errorf("-B: %w", err)
		}
		c.dialer.LocalAddr = cm.AddrFrom(netip.AddrPortFrom(addr, 0))
	}
	r, err := c.dialer.Resolve(ctx, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := c.prepare(r); err != nil {
		return nil, err
	}
	param := cm.DefaultConnParam()
	param.PrivateData = []byte(magic + "\x00")
	if c.conn, err = r.Connect(ctx, nil, &param); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cmClient) memory() (*verbs.Device, *verbs.PD) { return c.conn.Device(), c.conn.PD() }

// agree does nothing: the connection manager chooses.
func (*cmClient) agree(*plan) error { return nil }

func (c *cmClient) connect(ctx context.Context, e *end, token uint64) error {
	r, err := c.dialer.Resolve(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	defer r.Close()
	l, err := e.newLane(r)
	if err != nil {
		return err
	}
	param := cm.DefaultConnParam()
	param.PrivateData = binary.BigEndian.AppendUint64([]byte(magic), token)
	l.conn, err = r.Connect(ctx, l.qp, &param)
	return err
}
