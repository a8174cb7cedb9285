// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"

	"purerdma/verbs"
)

// plainClient connects without the connection manager.
type plainClient struct{ *plain }

// dialTCP makes the control connection.
func dialTCP(ctx context.Context, o *options) (clientWay, error) {
	w, err := openPlain(o)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{}
	if o.source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(o.source)}
	}
	conn, err := d.DialContext(ctx, "tcp", o.address())
	if err != nil {
		w.close()
		return nil, err
	}
	w.tcpControl = newTCPControl(conn)
	return plainClient{w}, nil
}

func (c plainClient) memory() (*verbs.Device, *verbs.PD) { return c.dev, c.pd }

func (c plainClient) connect(ctx context.Context, e *end, n int, _ uint64) error {
	for i := range n {
		if err := c.exchange(ctx, e, true); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	return nil
}
