// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streams

import (
	"context"
	"net"

	"purerdma/cm"
	"purerdma/rsocket"
	"purerdma/stream"
)

// protocol makes listeners and connections of a package.
type protocol struct {
	name string
	bits int // logarithm of the most bytes of a direction
	// confirms is set if the peer confirms the end of a stream.
	confirms bool
	listen   func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error)
	dial     func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error)
}

// protocols are package stream with its defaults, with the least receives, and package rsocket.
var protocols = []protocol{
	{
		"stream", 21, true,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&stream.ListenConfig{CM: lc}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&stream.Dialer{CM: d}).DialContext(ctx, "tcp", addr)
		},
	},
	{
		"stream with small windows", 16, true,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&stream.ListenConfig{CM: lc, Private: true, Options: least}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&stream.Dialer{CM: d, Options: least}).DialContext(ctx, "tcp", addr)
		},
	},
	{
		"rsocket", 21, false,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&rsocket.ListenConfig{CM: lc}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&rsocket.Dialer{CM: d}).DialContext(ctx, "tcp", addr)
		},
	},
}

var least = stream.Options{Slot: 1024, Window: 3, SendBuffer: 4096}
