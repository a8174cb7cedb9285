// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// defaultResolveTimeout bounds each of the two resolutions if nobody says
// otherwise.
const defaultResolveTimeout = 5 * time.Second

// firstResolveTimeout is what the kernel is given at first. It looks at the
// neighbour when it is asked, when a neighbour changes, and when the time is up:
// a neighbour that answers between the first two goes unnoticed until the third.
// So it is asked again and again, each time for twice as long.
const firstResolveTimeout = 50 * time.Millisecond

// Dialer holds the options of connecting. The zero Dialer is the default. A Dialer may
// make several connections, also concurrently; its fields must not change meanwhile.
type Dialer struct {
	// LocalAddr is the address to connect from; its device is used. The zero
	// Addr leaves both to the routing table. It must be of the destination's family,
	// or the error is an *ArgumentError. If the destination is a host name, an address of
	// the same family is chosen.
	LocalAddr Addr
	// ResolveTimeout bounds the resolution of the address, and then that of the
	// route, beside the context; 0 means 5 seconds, and less is an error that wraps
	// EINVAL. (The kernel bounds connecting itself, at 69 to 102 seconds.)
	ResolveTimeout time.Duration
	// Param holds the parameters of the connection, nil for the defaults of ConnParam.
	Param *ConnParam
	// QP configures the QP of the connection, unless the program makes one; zero fields mean
	// the defaults of verbs. Set NoScatterToCQE to register dma-bufs on the connection's PD
	// after the QP was made: see [verbs.PD.RegDMABuf].
	QP verbs.QPConfig
	// PD returns the protection domain of the connection, in which its QP is made and its
	// memory registered. It is called when the connection first needs its PD, by the
	// goroutine that needs it, so calls for several connections may overlap. Its error is
	// returned there. The PD stays the program's. nil means a new PD for each
	// connection, which ends with it.
	//
	// Connections that share a PD share their memory: a peer reaches every region and
	// window of it that has remote rights, whichever peer it was offered to. All it needs
	// is the address and the key, and both can be guessed from those that it was given
	// itself. Share one only among peers that may see each other's memory.
	// (*verbs.Device).DefaultPD is a PD that all connections of the device share, as in
	// librdmacm.
	PD func(*verbs.Device) (*verbs.PD, error)
	// KeepAlive is how long the connection is idle before its peer is probed, as by
	// [Conn.Probe]. A peer that does not acknowledge the probe within the same time (5
	// seconds at least), or before the QP's retries are used up, ends the connection:
	// operations then fail with a *BrokenError whose Op is "keepalive" and whose Timeout is true. 0
	// means 15 seconds, a negative value no probes. On iWARP the dialing side sends the first
	// probe after a second at most, idle or not: siw may keep a connection's first message
	// until something follows it.
	//
	// A probe takes an entry of the send queue and of its CQ for a moment, and the peer's QP
	// must allow remote WRITEs, as all QPs do that the connection manager has connected.
	// With 0, a QP that the program made is not probed, nor one whose send queue has a
	// single entry. One whose send CQ others use is never probed. Work requests that the
	// program posts itself do not count as use of the connection. On iWARP the accepting
	// side waits for the first message before it probes, and what ends the connection is
	// TCP.
	KeepAlive time.Duration
	// TOS is the type of service of the packets, 0 for the default: see
	// [ID.SetTOS].
	TOS uint8
	// AckTimeout is how long the QP waits for an acknowledgement before it sends
	// again, 0 for the default: see [ID.SetAckTimeout]. With the retry count it
	// bounds how long a dead peer goes unnoticed.
	AckTimeout time.Duration
	// NetNS is the network namespace to connect from, as in IDConfig; names are
	// looked up in the process's own.
	NetNS string
	// Host has the devices, nil for verbs.DefaultHost.
	Host *verbs.Host
}

// Dial connects with a default QP: Resolve and Connect in one. network is "tcp",
// "tcp4" or "tcp6", address is "host:port" in the RDMA port space.
//
// If ctx ends first, what was begun is undone and the error is the context's. If
// the peer refuses, it is a *RejectError. Nothing bounds the wait for a peer that
// is silent but ctx and the kernel's 69 to 102 seconds, or on iWARP the 2 minutes of
// TCP and then 10 seconds.
//
// No RDMA device has a loopback address: dial that of one, also on the same host.
//
// On iWARP the kernel goes on with a dial whose context has ended, for up to two minutes
// if nobody answers. At most 256 dials of a process are in the kernel at a time: one
// more waits, and fails with EAGAIN if all of those were cancelled.
//
// On iWARP the side that has connected must be the first to send: what the other
// sends before ends the connection (RFC 5044, 7.1).
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, network, address)
}

// Dial is the function Dial with options.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	if ps, err := portSpaceOf(network); err == nil && ps.qpType() == verbs.UD {
		return nil, &OpError{Op: opConnect, Err: errDatagram}
	}
	r, err := d.Resolve(ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Connect(ctx, nil, d.Param)
}

// Resolve finds the way to an address: which device, which route. It opens the
// device. network is one of Dial's, or "udp", "udp4" or "udp6" for datagrams: see
// [Resolved.Lookup].
func Resolve(ctx context.Context, network, address string) (*Resolved, error) {
	return new(Dialer).Resolve(ctx, network, address)
}

// Resolve is the function Resolve with options.
func (d *Dialer) Resolve(ctx context.Context, network, address string) (*Resolved, error) {
	dst, ps, err := lookup(ctx, network, address, false, d.LocalAddr)
	if err != nil {
		return nil, &OpError{Op: opResolve, Err: err}
	}
	return d.ResolveAddr(ctx, ps, dst)
}

// ResolveAddr is Resolve for an address that needs no look-up, in a port space.
func (d *Dialer) ResolveAddr(ctx context.Context, ps PortSpace, dst Addr) (*Resolved, error) {
	cdev.NeedContext(ctx)
	fail := func(err error) (*Resolved, error) {
		return nil, &OpError{Op: opResolve, Local: d.LocalAddr, Remote: dst, Err: err}
	}
	if !dst.IsValid() {
		return fail(errNoAddr)
	}
	if d.ResolveTimeout < 0 {
		return fail(fmt.Errorf("ResolveTimeout is %v: %w", d.ResolveTimeout, syscall.EINVAL))
	}
	if _, _, err := oneFamily(d.LocalAddr, dst); err != nil {
		return fail(err)
	}
	ch, err := NewEventChannel(d.Host)
	if err != nil {
		return fail(err.(*OpError).Err)
	}
	id, err := ch.NewID(IDConfig{PortSpace: ps, QPType: d.QP.Type, NetNS: d.NetNS})
	if err == nil {
		if err = d.resolve(ctx, id, dst); err == nil {
			r := &Resolved{pendingConn: pendingConn{ep: newEndpoint(ch, id), qpConfig: d.QP, keepAlive: d.KeepAlive}}
			id.pdOf = d.PD
			go r.ep.pump()
			return r, nil
		}
		id.Close()
	}
	ch.Close()
	return nil, err
}

func (d *Dialer) resolve(ctx context.Context, id *ID, dst Addr) error {
	timeout := cmp.Or(d.ResolveTimeout, defaultResolveTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		// The kernel need not go on after ctx has ended.
		timeout = min(timeout, time.Until(deadline)+time.Second)
	}
	if d.TOS != 0 {
		if err := id.SetTOS(d.TOS); err != nil {
			return err
		}
	}
	if d.AckTimeout != 0 {
		if err := id.SetAckTimeout(d.AckTimeout); err != nil {
			return err
		}
	}
	end := time.Now().Add(timeout)
	for try := firstResolveTimeout; ; try *= 2 {
		left := time.Until(end)
		if err := id.ResolveAddr(d.LocalAddr, dst, min(try, left)); err != nil {
			return err
		}
		err := expect(ctx, id, EventAddrResolved)
		if err == nil {
			break
		}
		if left <= try || !errors.Is(err, syscall.ETIMEDOUT) {
			return err
		}
	}
	if toLoopback(dst) && !id.iwarp() {
		return &OpError{Op: opResolve, Local: id.LocalAddr(), Remote: dst, Err: hint(errNoDeviceThere, d.LocalAddr, dst)}
	}
	if err := id.ResolveRoute(timeout); err != nil {
		return err
	}
	return expect(ctx, id, EventRouteResolved)
}

// expect waits for the event that a call on an ID leads to, on a channel that no
// other ID uses. Hints that come in between are passed over.
func expect(ctx context.Context, id *ID, want EventType) error {
	for {
		ev, err := id.Channel().Next(ctx)
		if err != nil {
			return id.unresolved(err.(*OpError).Err)
		}
		ev.Ack()
		switch ev.Type {
		case want:
			return nil
		case EventAddrError, EventRouteError, EventAddrInfoError, EventDeviceRemoval:
			return ev.Err()
		}
	}
}

// Resolved is a destination whose device and route are known: the stage at which
// the active side makes its QP and posts its first receives. It is used by one
// goroutine at a time.
type Resolved struct {
	pendingConn
}

// Connect connects (rdma_connect(3)). qp may be nil for the QP that Init or QP
// chose; param may be nil for the defaults of ConnParam. Whatever comes of it, r can do
// nothing more: on failure it has been closed. On iWARP the Conn must be the first
// to send: see Dial.
func (r *Resolved) Connect(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opConnect, errDatagram)
	}
	qp, err := r.take(opConnect, qp)
	if err != nil {
		return nil, err
	}
	if err := r.ask(ctx, param); err != nil {
		return nil, err
	}
	r.done.Store(true)
	conn := newConn(r.ep, qp)
	conn.startKeepAlive(r.keepAlive)
	return conn, nil
}

// Establish is Connect, for a [PendingConn].
func (r *Resolved) Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	return r.Connect(ctx, qp, param)
}

// ask sends the request, and waits for what comes of it.
func (r *Resolved) ask(ctx context.Context, param *ConnParam) error {
	err := r.ep.await(ctx, opConnect, connecting, func() error { return r.ep.id.Connect(param) })
	return hintOfSilence(err, r.ep.id.netNS)
}
