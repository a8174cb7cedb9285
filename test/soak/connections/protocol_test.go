// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"context"
	"net"
	"slices"
	"time"

	"purerdma/cm"
)

// protocol makes listeners and connections of a package.
type protocol struct {
	name   string
	bits   int // logarithm of the most bytes of a direction
	kinds  int // number of kinds of calls that the traffic has to include
	listen func(ctx context.Context, lc cm.ListenConfig, addr string) (listener, error)
	dial   func(ctx context.Context, d cm.Dialer, addr string) (connection, error)
}

// listener accepts connections. accept returns an error that wraps net.ErrClosed after Close.
type listener interface {
	accept() (connection, error)
	Addr() net.Addr
	Close() error
}

// connection is one side of a connection. The dialing side begins with sendSeed, and the accepting side with
// receiveSeed.
type connection interface {
	sendSeed(seed uint64) error
	// receiveSeed also reports whether a part of the seed has arrived.
	receiveSeed(patience time.Duration) (seed uint64, begun bool, err error)
	// transfer transfers the data of a plan.
	transfer(*end)
	// abort closes the connection in the middle of a transfer.
	abort()
	Close() error
}

// protocols are all protocols.
var protocols = slices.Concat(streamProtocols, messageProtocols)
