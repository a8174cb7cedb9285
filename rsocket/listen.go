// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"cmp"
	"context"
	"errors"
	"net"

	"purerdma/cm"
	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// ListenConfig listens for rsockets. The zero ListenConfig has the defaults.
type ListenConfig struct {
	Options
	// CM has the options of the connection manager, and with them the limits for peers. Its QP
	// and KeepAlive are not used. PD is as in Dialer.
	CM cm.ListenConfig
}

// defaultRoom bounds the connections that Accept has not returned, and with them the memory of their buffers.
const defaultRoom = 64

// Listen listens on address, which is "host:port" in the RDMA port space. network is as in
// [Dialer.DialContext]. ctx bounds the look-up of a name. Connections are of type *[Conn]. The error is a
// *net.OpError.
//
// Each request of a peer is answered on a goroutine of its own, so a slow peer does not delay the others. At most 64
// requests, or CM.MaxPending if it is positive, are answered at a time until Accept has returned the connection. At most
// a quarter of them are of one remote address. Further requests wait, up to the limits of CM. No peer can make Accept
// fail. Accept returns a temporary error while this process has no file descriptors or memory for further
// connections. CM.Host.Log gets a record of other failures to answer a request at level Warn. There is at
// most one a second for failures of peers, and one for failures of this process.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return lc.listen(func(config *cm.ListenConfig) (*cm.Listener, error) {
		network, err := streamconn.Network(network)
		if err != nil {
			return nil, err
		}
		return config.Listen(ctx, network, address)
	})
}

// ListenAddr is like Listen for an address that needs no look-up.
func (lc *ListenConfig) ListenAddr(addr cm.Addr) (net.Listener, error) {
	return lc.listen(func(config *cm.ListenConfig) (*cm.Listener, error) {
		return config.ListenAddr(cm.PortSpaceTCP, addr)
	})
}

// Listen is ListenConfig.Listen with the defaults.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return new(ListenConfig).Listen(ctx, network, address)
}

func (lc *ListenConfig) listen(start func(*cm.ListenConfig) (*cm.Listener, error)) (net.Listener, error) {
	opts, err := lc.Options.withDefaults()
	if err != nil {
		return nil, streamconn.OpError("listen", err)
	}
	config := lc.CM
	config.KeepAlive = -1
	inner, err := start(&config)
	if err != nil {
		return nil, streamconn.OpError("listen", err)
	}
	room := cmp.Or(max(0, config.MaxPending), defaultRoom)
	return streamconn.Listen(inner, cmp.Or(config.Host, verbs.DefaultHost()).Log, room, func(ctx context.Context, req *cm.Request) (streamconn.Accepted, error) {
		return accept(ctx, req, opts)
	}), nil
}

// accept answers a request. It returns an error if it has rejected the request, or if the connection was not
// established. A rejection has the reason as private data.
func accept(ctx context.Context, req *cm.Request, opts Options) (*Conn, error) {
	data := req.PrivateData()
	if req.LocalAddr().IB != (cm.IBAddr{}) {
		data = data[min(ibHeaderLen, len(data)):]
	}
	peer, err := parseConnData(data)
	if err != nil {
		_ = req.Reject([]byte(err.Error())) // the peer may have left
		return nil, err
	}
	l, err := newLink(req, opts)
	if err == nil {
		err = l.setPeer(peer)
	}
	if err != nil {
		_ = req.Reject([]byte("no resources for the connection"))
		return nil, errors.Join(err, l.end())
	}
	param := connParam(nil)
	param.PrivateData = l.connData().append(nil)
	conn, err := req.Accept(ctx, nil, param)
	if err != nil {
		return nil, errors.Join(err, l.end())
	}
	return l.start(conn, true), nil
}
