// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// ListenConfig holds the options of listening. The zero ListenConfig is the default. Listen
// copies it.
type ListenConfig struct {
	// Backlog bounds the connect requests that Accept has not fetched. 0 or a negative value
	// means the system's maximum (sysctl net.rdma_ucm.max_backlog). The kernel does not answer
	// a request beyond this bound, and the peer repeats it. On iWARP the request is refused.
	Backlog int
	// ReuseAddr lets several listeners on different addresses share a port.
	ReuseAddr bool
	// QP configures the QPs of the connections, as [Dialer.QP] does.
	QP verbs.QPConfig
	// PD returns the protection domain of a connection, as for [Dialer.PD]. nil means a new PD
	// for each connection.
	PD func(*verbs.Device) (*verbs.PD, error)
	// MaxConns bounds the connections of the listener that have not been closed, including
	// pending connections. 0 means 16384, or a third of the process's file descriptors
	// (RLIMIT_NOFILE) if that is less. A negative value means no limit.
	//
	// A request over this limit or one of the next three is rejected. The private data of the
	// rejection holds the reason, which [RefusalOf] returns. [Listener.Refused] counts such
	// requests. Host.Log gets a record of them at level Warn, at most one a second.
	MaxConns int
	// MaxConnsPerAddr bounds the connections from one remote address. 0 means 4096, or half of
	// MaxConns if that is less. If MaxConns is negative, its default counts. So an address at its
	// default limit does not block other addresses. A negative value means no limit. The address
	// is the address in the peer's request. RoCE does not authenticate it.
	MaxConnsPerAddr int
	// MaxPending bounds the pending handshakes. A request is pending after Accept has returned
	// it, until it is established or closed. 0 means 4096. A negative value means no limit.
	MaxPending int
	// MaxPendingPerAddr bounds the pending handshakes of one remote address. 0 means 1024, or
	// half of MaxPending if that is less. A negative value means no limit.
	MaxPendingPerAddr int
	// HandshakeTimeout bounds the time from Listener.Accept until the connection is
	// established: see [Request]. 0 means 30 seconds. A negative value means no limit.
	HandshakeTimeout time.Duration
	// KeepAlive is the time that a connection is idle before its peer is probed: see
	// [Dialer.KeepAlive]. 0 means 15 seconds. A negative value means no probes.
	KeepAlive time.Duration
	// Receive has the library post receives, so that [Conn.Receive] returns messages. nil means
	// that the program posts receives.
	Receive *inflight.ReceiveConfig
	// Shared has the connections use the receives, the memory and the completion queues of a
	// Shared, so that an idle connection costs little. Then PD, and the CQs and the SRQ of QP
	// must be nil. Devices without shared receive queues are an exception, as for
	// [Dialer.Shared].
	Shared *Shared
	// NetNS is the network namespace to listen in, as in IDConfig. Names are resolved in the
	// process's own namespace.
	NetNS string
	// Host has the devices. nil means verbs.DefaultHost.
	Host *verbs.Host
}

// Listener takes connect requests.
//
// A Listener on an unspecified address listens on every device, including devices that appear
// later. It continues when a device is removed. A Listener on the address of a device ends
// with a *verbs.DeviceRemovedError when that device is removed.
//
// A Listener keeps a device open after a request has arrived on it, until Close or the
// device's removal. This takes a file descriptor and a goroutine.
type Listener struct {
	ch        *EventChannel
	id        *ID
	config    ListenConfig
	admission *admission
	devices   heldDevices
	accepts   acceptCounters
	uncount   func() // ends the counting for the Host
}

// Listen listens on an address of this host, or on all its addresses if the host is empty or "::".
// network is "tcp", "tcp4" or "tcp6", or "udp", "udp4" or "udp6" for datagrams (see
// [Request.Answer]). address is "host:port" in the RDMA port space. A free port is chosen for
// port 0, and for an empty address. ctx bounds the look-up of a name.
//
// No RDMA device has a loopback address. Listen refuses loopback addresses with an error that
// wraps syscall.EADDRNOTAVAIL, because the kernel would listen on every device instead.
// [ID.Bind] and [ListenConfig.ListenAddr] accept loopback addresses, as in C.
//
// iWARP uses the ports of TCP, where IPv6's wildcard takes no IPv4 requests. For all IPv4
// addresses use "tcp4", or the host "0.0.0.0". With every network this host means IPv4 only, which differs from
// package net. Devices of the kernel's driver erdma connect over IPv4 only. On a host with such a device, all
// addresses are all IPv4 addresses, unless the network ends with "6".
func Listen(ctx context.Context, network, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, network, address)
}

// Listen is like the function Listen, with the options of the ListenConfig.
func (lc *ListenConfig) Listen(ctx context.Context, network, address string) (*Listener, error) {
	local, ps, err := lookup(ctx, network, address, true, Addr{})
	if err != nil {
		return nil, &OpError{Op: opListen, Err: err}
	}
	if local.Addr().Unmap().IsLoopback() {
		return nil, &OpError{Op: opListen, Local: local, Err: errLoopback}
	}
	l, err := lc.ListenAddr(ps, local)
	if all4, ok := withoutIPv6(network, local); ok && errors.Is(err, syscall.EAFNOSUPPORT) {
		// The kernel lets no ID listen on all IPv6 addresses if one of the devices refuses (cma_listen_on_all).
		return lc.ListenAddr(ps, all4)
	}
	return l, err
}

// ListenAddr is like Listen for an address in a port space, which needs no look-up. It accepts
// loopback addresses, on which the kernel listens on every device, as in C.
func (lc *ListenConfig) ListenAddr(ps PortSpace, local Addr) (*Listener, error) {
	if !local.IsValid() {
		return nil, &OpError{Op: opListen, Err: errNoAddr}
	}
	options := lc.options()
	if err := options.check(lc.PD); err != nil {
		return nil, &OpError{Op: opListen, Local: local, Err: err}
	}
	ch, err := NewEventChannel(lc.Host)
	if err != nil {
		return nil, &OpError{Op: opListen, Local: local, Err: err.(*OpError).Err}
	}
	id, err := ch.NewID(IDConfig{PortSpace: ps, QPType: lc.QP.Type, NetNS: lc.NetNS})
	if err != nil {
		ch.Close()
		return nil, err
	}
	if lc.ReuseAddr {
		err = id.SetReuseAddr(true)
	}
	if err == nil {
		err = id.bind(local)
	}
	if err == nil {
		err = id.Listen(lc.Backlog)
	}
	if err != nil {
		id.Close()
		ch.Close()
		return nil, err
	}
	l := &Listener{ch: ch, id: id, config: *lc, admission: newAdmission(lc)}
	l.config.HandshakeTimeout = cmp.Or(lc.HandshakeTimeout, defaultHandshakeTimeout)
	l.devices.host, l.devices.netNS = lc.Host, lc.NetNS
	// Stats.Accepts already has the sums of the counters.
	l.uncount = counting.Host(ch.host, "listener", func(*bridge.Counts) {})
	return l, nil
}

// options returns the options of the connections.
func (lc *ListenConfig) options() connOptions {
	return connOptions{qp: lc.QP, keepAlive: lc.KeepAlive, receive: lc.Receive, shared: lc.Shared}
}

// Addr returns the listener's address, with the port that the kernel chose if the port was 0.
func (l *Listener) Addr() Addr { return l.id.LocalAddr() }

// Accept waits for a connect request. The returned request is not yet accepted. Make the
// connection's objects, post receives, and then call [Request.Accept] or [Request.Reject].
//
// Several goroutines may call Accept concurrently. It fails only after Close (net.ErrClosed),
// after the removal of the listener's device, when ctx ends, or when the process runs out of
// file descriptors or memory. Errors of the last kind have a method Temporary that returns
// true, as for a net.Listener. In that case wait a little and call Accept again.
//
// No peer can make Accept fail. A request over a limit of the ListenConfig is rejected,
// counted ([Listener.Refused]) and logged. The same happens to a request that arrived on a
// device that this process cannot open, and in similar cases.
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
			// The process has run out of descriptors or memory.
			return nil, l.id.opError(opAccept, ev.cause)
		case EventDeviceRemoval:
			// No more events will arrive. Closing the channel wakes the other waiting
			// goroutines and makes later calls return.
			l.ch.Close()
			return nil, l.id.opError(opAccept, errors.Unwrap(ev.Err()))
		}
	}
}

// take moves a request to a channel of its own. It returns nil and no error if the request no
// longer exists or is refused.
func (l *Listener) take(ev *Event) (*Request, error) {
	id := ev.ID
	l.devices.hold(id)
	slot, why := l.admission.admit(id.RemoteAddr())
	if slot == nil {
		l.ch.refuse(id, why, nil)
		return nil, nil
	}
	ch, err := moveToChannel(id, l.config.Host)
	if err != nil {
		slot.release()
		if !exhausted(err) {
			l.ch.refuse(id, RefusedNoChannel, err)
			return nil, nil
		}
		id.Close()
		return nil, l.id.opError(opAccept, errors.Unwrap(err))
	}
	req := &Request{pendingConn: pendingConn{ep: newEndpoint(ch, id), options: l.config.options(), accepts: &l.accepts}, param: ev.Conn, data: ev.PrivateData()}
	req.options.choose(id, l.config.PD)
	req.ep.slot = slot
	if d := l.config.HandshakeTimeout; d > 0 {
		req.expireAt(time.Now().Add(d))
	}
	go req.ep.pump()
	return req, nil
}

// moveToChannel moves a request to a new channel.
func moveToChannel(id *ID, host *verbs.Host) (*EventChannel, error) {
	ch, err := NewEventChannel(host)
	if err != nil {
		return nil, err
	}
	if err := id.Migrate(ch); err != nil {
		ch.Close()
		return nil, err
	}
	return ch, nil
}

// Refused returns the number of requests that the library has rejected by itself. The reason
// is a limit of the ListenConfig, or a failure of this process that Accept does not return.
func (l *Listener) Refused() uint64 { return l.ch.refused.Total() }

// Close stops listening. Requests that Accept has not fetched are refused. Accept returns
// net.ErrClosed. Existing connections are not affected. Close may be called more than once.
func (l *Listener) Close() error {
	l.uncount()
	l.id.Close()
	return errors.Join(l.ch.Close(), l.devices.close())
}
