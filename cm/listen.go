// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"purerdma/verbs"
)

// ListenConfig holds the options of listening. The zero ListenConfig is the default.
// Listen copies it.
type ListenConfig struct {
	// Backlog bounds the connect requests that Accept has not fetched. 0 or a negative
	// value means the system's maximum (sysctl net.rdma_ucm.max_backlog).
	// A request beyond it is not answered; the peer repeats it. On iWARP it is refused.
	Backlog int
	// ReuseAddr lets several listeners on different addresses share a port.
	ReuseAddr bool
	// QP configures the QPs of the connections, as [Dialer.QP] does.
	QP verbs.QPConfig
	// PD returns the protection domain of a connection, as for [Dialer.PD]. nil means a
	// new one for each connection.
	PD func(*verbs.Device) (*verbs.PD, error)
	// MaxConns bounds the connections of the listener that have not been closed, pending
	// ones included. 0 means 16384, or a third of the process's file descriptors
	// (RLIMIT_NOFILE) if that is less; a negative value is no limit.
	//
	// A request over this limit or one of the next three is rejected, with the reason
	// as private data, which [RefusalOf] returns. [Listener.Refused] counts such requests, and Host.Log has a
	// record of them at level Warn, one a second at most.
	MaxConns int
	// MaxConnsPerAddr bounds the connections from one remote address. 0 means 4096, or a
	// sixth of the process's file descriptors if that is less; a negative value is no
	// limit. The address is the one that the peer names. RoCE does not authenticate it.
	MaxConnsPerAddr int
	// MaxPending bounds the pending handshakes: the requests that Accept has returned and
	// that are neither established nor closed. 0 means 4096, a negative value is no limit.
	MaxPending int
	// MaxPendingPerAddr bounds the pending handshakes of one remote address. 0 means 1024,
	// a negative value is no limit.
	MaxPendingPerAddr int
	// HandshakeTimeout bounds the time from Listener.Accept until the connection is
	// established: see [Request]. 0 means 30 seconds, a negative value is no limit.
	HandshakeTimeout time.Duration
	// KeepAlive is how long a connection is idle before its peer is probed: see
	// [Dialer.KeepAlive]. 0 means 15 seconds, a negative value no probes.
	KeepAlive time.Duration
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
//
// It keeps the devices open by which requests have come, until Close or the device's
// removal. That takes a file descriptor and a goroutine.
type Listener struct {
	ch        *EventChannel
	id        *ID
	config    ListenConfig
	admission *admission
	devices   heldDevices
}

// Listen listens on an address of this host, or with an empty host on all of
// them. network is "tcp", "tcp4" or "tcp6", or "udp", "udp4" or "udp6" for datagrams
// (see [Request.Answer]); address is "host:port" in the RDMA port space; port 0 is
// replaced by a free one. ctx bounds the look-up of a name.
//
// No RDMA device has a loopback address: those are refused, with an error that wraps
// syscall.EADDRNOTAVAIL, because the kernel would listen on every device instead
// ([ID.Bind] and [ListenConfig.ListenAddr] do so, as in C).
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
	return lc.ListenAddr(ps, local)
}

// ListenAddr is Listen for an address that needs no look-up, in a port space. It takes loopback addresses, on which the
// kernel listens on every device, as in C.
func (lc *ListenConfig) ListenAddr(ps PortSpace, local Addr) (*Listener, error) {
	if !local.IsValid() {
		return nil, &OpError{Op: opListen, Err: errNoAddr}
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
	return l, nil
}

// Addr returns the listener's address with the port that was chosen.
func (l *Listener) Addr() Addr { return l.id.LocalAddr() }

// Accept waits for a connect request. The request is asked for and not yet
// accepted: make what the connection needs, post receives, and then call
// [Request.Accept] or [Request.Reject].
//
// Several goroutines may call it. It fails only after Close (net.ErrClosed) or the
// removal of the listener's device, when ctx ends, or when the process is out of file
// descriptors or memory. Errors of that last kind have a method Temporary that returns
// true, as for a net.Listener: wait a little and call Accept again. No peer makes Accept
// fail: a request over a limit of the ListenConfig, one that came by a device that this
// process cannot open, and the like, is rejected, counted ([Listener.Refused]) and logged.
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
			// Descriptors or memory have run out.
			return nil, l.id.opError(opAccept, ev.cause)
		case EventDeviceRemoval:
			// No event will come any more: this wakes the others who wait, and
			// tells those who come later.
			l.ch.Close()
			return nil, l.id.opError(opAccept, errors.Unwrap(ev.Err()))
		}
	}
}

// take gives a request a channel of its own. It returns nothing at all for a
// request that is gone already, or is refused.
func (l *Listener) take(ev *Event) (*Request, error) {
	id := ev.ID
	l.devices.hold(id)
	slot, why := l.admission.admit(id.RemoteAddr())
	if slot == nil {
		l.ch.refuse(id, why, nil)
		return nil, nil
	}
	ch, err := NewEventChannel(l.config.Host)
	if err != nil {
		slot.release()
		if !exhausted(err) {
			l.ch.refuse(id, RefusedNoChannel, err)
			return nil, nil
		}
		id.Close()
		return nil, l.id.opError(opAccept, errors.Unwrap(err))
	}
	if err := id.Migrate(ch); err != nil {
		slot.release()
		id.Close()
		ch.Close()
		return nil, nil
	}
	id.pdOf = l.config.PD
	req := &Request{pendingConn: pendingConn{ep: newEndpoint(ch, id), qpConfig: l.config.QP, keepAlive: l.config.KeepAlive}, param: ev.Conn, data: ev.PrivateData()}
	req.ep.slot = slot
	if d := l.config.HandshakeTimeout; d > 0 {
		req.expireAt(time.Now().Add(d))
	}
	go req.ep.pump()
	return req, nil
}

// Refused returns how many requests the library has rejected by itself: over a limit of
// the ListenConfig, or because of a failure of this process that is not one of Accept.
func (l *Listener) Refused() uint64 { return l.ch.refused.Total() }

// Close stops listening. Requests that nobody has fetched are refused; Accept
// returns net.ErrClosed; connections are not touched. It may be called more than
// once.
func (l *Listener) Close() error {
	l.id.Close()
	return errors.Join(l.ch.Close(), l.devices.close())
}
