// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"net"

	"purerdma/verbs"
)

// ListenConfig holds the options of listening. The zero ListenConfig is the
// default.
type ListenConfig struct {
	// Backlog bounds the connect requests that Accept has not fetched; 0, or less,
	// means the system's maximum (sysctl net.rdma_ucm.max_backlog), as to the kernel.
	// A request beyond it is not answered; the peer repeats it. On iWARP it is refused.
	Backlog int
	// ReuseAddr lets several listeners on different addresses share a port.
	ReuseAddr bool
	// QP says how default QPs are made; zero fields mean the defaults of verbs.
	QP verbs.QPConfig
	// NetNS is the network namespace to listen in, as in IDConfig; names are
	// looked up in the process's own.
	NetNS string
	// Host has the devices, nil for verbs.DefaultHost.
	Host *verbs.Host
}

// Listener takes connect requests.
//
// One on an unspecified address listens on every device, including those that
// come later, and goes on when one is removed. One on the address of a device
// ends with a *verbs.DeviceRemovedError when that is removed.
type Listener struct {
	ch     *EventChannel
	id     *ID
	config ListenConfig
}

// Listen listens on an address of this host, or with an empty host on all of
// them. network is "tcp", "tcp4" or "tcp6", or "udp", "udp4" or "udp6" for datagrams
// (see [Request.Answer]); address is "host:port" in the RDMA port space; port 0 is
// replaced by a free one. ctx bounds the look-up of a name.
//
// No RDMA device has a loopback address: those are refused, with an error that wraps
// syscall.EADDRNOTAVAIL, because the kernel would listen on every device instead
// ([ID.Bind] and [ListenConfig.ListenInfo] let it, as in C).
//
// iWARP's ports are those of TCP, and there IPv6's wildcard takes no IPv4 requests:
// for all addresses of IPv4 say "tcp4".
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, network, address)
}

// Listen is the function Listen with options.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	local, ps, err := lookup(ctx, network, address, true, Addr{})
	if err != nil {
		return nil, &OpError{Op: opListen, Err: err}
	}
	if local.Addr().Unmap().IsLoopback() {
		return nil, &OpError{Op: opListen, Local: local, Err: errLoopback}
	}
	return lc.listenInfo(&AddrInfo{PortSpace: ps, SrcAddr: local})
}

func (lc *ListenConfig) listenInfo(info *AddrInfo) (*Listener, error) {
	ch, err := NewEventChannelOn(lc.Host)
	if err != nil {
		return nil, &OpError{Op: opListen, Local: info.SrcAddr, Err: err.(*OpError).Err}
	}
	id, err := ch.NewIDConfig(IDConfig{PortSpace: info.PortSpace, QPType: info.QPType, NetNS: lc.NetNS})
	if err != nil {
		ch.Close()
		return nil, err
	}
	if lc.ReuseAddr {
		err = id.SetReuseAddr(true)
	}
	if err == nil {
		err = id.bind(info.SrcAddr)
	}
	if err == nil {
		err = id.Listen(lc.Backlog)
	}
	if err != nil {
		id.Close()
		ch.Close()
		return nil, err
	}
	l := &Listener{ch: ch, id: id, config: *lc}
	l.config.QP.Type = cmp.Or(info.QPType, lc.QP.Type)
	return l, nil
}

// Addr returns the listener's address with the port that was chosen.
func (l *Listener) Addr() Addr { return l.id.LocalAddr() }

// Accept waits for a connect request. The request is asked for and not yet
// accepted: make what the connection needs, post receives, and then call
// [Request.Accept] or [Request.Reject].
//
// Several goroutines may call it. Its error is one of the listener, such as
// net.ErrClosed, the context's, or that of a process that is out of file
// descriptors or may not open the device, after which it may be called again; a
// request that fails is dropped and does not end it.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	for {
		ev, err := l.ch.Next(ctx)
		if err != nil {
			if errors.Is(err, net.ErrClosed) && l.id.State() == StateRemoved {
				return nil, l.id.opError(opAccept, l.id.removedError())
			}
			return nil, l.id.opError(opAccept, err.(*OpError).Err)
		}
		ev.Ack()
		switch ev.Type {
		case EventConnectRequest:
			req, err := l.take(ev)
			if req == nil && err == nil {
				continue
			}
			return req, err
		case EventConnectError:
			// A request came by a device that cannot be opened.
			return nil, ev.Err()
		case EventDeviceRemoval:
			// No event will come any more: this wakes the others who wait, and
			// tells those who come later.
			l.ch.Close()
			return nil, l.id.opError(opAccept, errors.Unwrap(ev.Err()))
		}
	}
}

// take gives a request a channel of its own. It returns nothing at all for a
// request that is gone already.
func (l *Listener) take(ev *Event) (*Request, error) {
	ch, err := NewEventChannelOn(l.config.Host)
	if err != nil {
		ev.ID.Close()
		return nil, err
	}
	if err := ev.ID.Migrate(ch); err != nil {
		ev.ID.Close()
		ch.Close()
		return nil, nil
	}
	req := &Request{stage: stage{ep: newEndpoint(ch, ev.ID), qpConfig: l.config.QP}, param: ev.Conn, data: ev.PrivateData()}
	go req.ep.pump()
	return req, nil
}

// Close stops listening. Requests that nobody has fetched are refused; Accept
// returns net.ErrClosed; connections are not touched. It may be called more than
// once.
func (l *Listener) Close() error {
	l.id.Close()
	return l.ch.Close()
}
