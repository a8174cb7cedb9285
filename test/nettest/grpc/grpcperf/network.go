// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"purerdma/cm"
	"purerdma/stream"
)

// network makes the connections of a test.
type network struct {
	listen func(ctx context.Context, address string) (net.Listener, error)
	dial   func(ctx context.Context, address string) (net.Conn, error)
}

// networkOf returns a network by its name. local is the IP address of the client, or "".
func networkOf(name, local string) (network, error) {
	var from netip.AddrPort
	if local != "" {
		addr, err := netip.ParseAddr(local)
		if err != nil {
			return network{}, fmt.Errorf("-local: %w", err)
		}
		from = netip.AddrPortFrom(addr, 0)
	}
	switch name {
	case "stream":
		return streams(&stream.ListenConfig{}, &stream.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(from)}}), nil
	case "tcp":
		d := net.Dialer{}
		if from.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(from)
		}
		return network{
			listen: func(ctx context.Context, address string) (net.Listener, error) {
				return new(net.ListenConfig).Listen(ctx, "tcp", address)
			},
			dial: func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
		}, nil
	}
	return network{}, fmt.Errorf("-net %s: want stream or tcp", name)
}

// streams returns a network of package stream.
func streams(lc *stream.ListenConfig, d *stream.Dialer) network {
	return network{
		listen: func(ctx context.Context, address string) (net.Listener, error) { return lc.Listen(ctx, "tcp", address) },
		dial:   func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
	}
}
