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

// cmClient connects through the connection manager.
type cmClient struct {
	cmControl
	dialer  cm.Dialer
	address string
}

// dialCM makes the control connection.
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
	param := cm.ConnParam{PrivateData: []byte(magic + "\x00")}
	if c.conn, err = r.Connect(ctx, nil, &param); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cmClient) memory() (*verbs.Device, *verbs.PD) { return c.conn.Device(), c.conn.PD() }

// agree does nothing, because the connection manager chooses the path.
func (*cmClient) agree(*plan) error { return nil }

// connect creates all QPs before it connects the first. siw assigns each QP to the thread of
// the processor with the fewest QPs. If a server on the same host created one QP after each QP
// of the client, all of the client's QPs would share one processor.
func (c *cmClient) connect(ctx context.Context, e *end, n int, token uint64) error {
	routes := make([]*cm.Resolved, 0, n)
	defer func() {
		for _, r := range routes {
			r.Close()
		}
	}()
	for i := range n {
		r, err := c.dialer.Resolve(ctx, "tcp", c.address)
		if err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
		routes = append(routes, r)
		if _, err := e.newLane(r); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	param := cm.ConnParam{PrivateData: binary.BigEndian.AppendUint64([]byte(magic), token)}
	for i, r := range routes {
		var err error
		l := e.lanes[i]
		if l.conn, err = r.Connect(ctx, l.qp, &param); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	return nil
}
