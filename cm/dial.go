// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// defaultResolveTimeout bounds the address resolution and the route resolution, each
// separately.
const defaultResolveTimeout = 5 * time.Second

// firstResolveTimeout is the timeout of the first command that resolves the address. The
// kernel checks the neighbor when the command arrives, when a neighbor changes, and when the
// timeout expires. If the neighbor answers between the first two checks, only the third check
// finds it. Therefore the command is repeated, each time with twice the timeout.
const firstResolveTimeout = 50 * time.Millisecond

// Dialer holds the options of connecting. The zero Dialer is the default. A Dialer may make
// several connections, even concurrently. Its fields must not change during that time.
type Dialer struct {
	// LocalAddr is the address to connect from. The connection uses the device of this
	// address. The zero Addr leaves both to the routing table. LocalAddr must be of the
	// destination's family, or the error is an *ArgumentError. If the destination is a host
	// name, an address of the same family is chosen.
	LocalAddr Addr
	// ResolveTimeout bounds the resolution of the address, and then the resolution of the
	// route. The context also bounds both. 0 means 5 seconds. A negative value is an error
	// that wraps EINVAL. The kernel itself bounds connecting, at 69 to 102 seconds.
	ResolveTimeout time.Duration
	// Param holds the parameters of the connection. nil means the defaults of ConnParam.
	Param *ConnParam
	// QP configures the QP of the connection, unless the program makes the QP. Zero fields
	// mean the defaults of verbs. Set NoScatterToCQE to register dma-bufs on the connection's
	// PD after the QP was made: see [verbs.PD.RegDMABuf].
	QP verbs.QPConfig
	// PD returns the protection domain of the connection. The connection's QP is made and its
	// memory is registered in this PD. The goroutine that first needs the PD calls the
	// function, so calls for several connections may overlap. If the function fails, the
	// operation that needs the PD returns the error. The PD still belongs to the program. nil
	// means a new PD for each connection, which is closed with the connection.
	//
	// Connections that share a PD share their memory. A peer reaches every region and window
	// of the PD that has remote rights, even if the program offered it to another peer. The
	// peer needs only the address and the key, and can guess both from the address and key
	// that it has received. Share a PD only among peers that may see each other's memory.
	// (*verbs.Device).DefaultPD is a PD that all connections of the device share, as in
	// librdmacm.
	PD func(*verbs.Device) (*verbs.PD, error)
	// KeepAlive is the time that the connection is idle before its peer is probed, as by
	// [Conn.Probe]. 0 means 15 seconds. A negative value means no probes. A probe fails if the
	// peer does not acknowledge it within this time, or within 5 seconds if that is longer. It
	// also fails when the QP's retries are used up. A failed probe ends the connection. So where
	// packets are lost, AckTimeout should be much less than KeepAlive. While operations are in
	// flight, only the retries of the transport end the connection, because a live peer may
	// have no receive for a message.
	// Operations then fail with a *BrokenError whose Op is "keepalive" and whose Timeout is
	// true. On iWARP the dialing side sends the first probe after a second at most, even if
	// the connection is not idle. siw may keep a connection's first message until something
	// follows it.
	//
	// A probe takes an entry of the send queue and of its CQ for a moment. The peer's QP must
	// allow remote WRITEs. All QPs that the connection manager has connected allow them. If
	// KeepAlive is 0, there are no probes on a QP that the program made, or on a send queue
	// with a single entry. If the send CQ has other users, there are never probes. Work
	// requests that the program posts itself do not count as use of the connection, or as
	// operations in flight. A probe behind a message of the program fails if the peer posts no
	// receive in time. On iWARP the accepting side waits for the first message before it
	// probes. There, TCP ends the connection of a dead peer.
	KeepAlive time.Duration
	// Receive has the library post receives, so that [Conn.Receive] returns messages. nil means
	// that the program posts receives.
	Receive *inflight.ReceiveConfig
	// Shared has the connection use the receives, the memory and the completion queues of a
	// Shared. Then PD, and the CQs and the SRQ of QP must be nil. On a device without shared
	// receive queues the connection has receives of its own instead, by Receive. If Receive is
	// nil, they are as many as QP has, of the Size in the configuration of Shared. On other
	// devices Receive has no effect.
	Shared *Shared
	// TOS is the type of service of the packets. 0 means the default: see [ID.SetTOS].
	TOS uint8
	// AckTimeout is the time that the QP waits for an acknowledgement before it sends again. 0
	// means the default: see [ID.SetAckTimeout]. With the retry count it bounds the time until
	// a dead peer is detected.
	AckTimeout time.Duration
	// NetNS is the network namespace to connect from, as in IDConfig. Names are resolved in
	// the process's own namespace.
	NetNS string
	// Host has the devices. nil means verbs.DefaultHost.
	Host *verbs.Host
}

// Dial connects with a default QP. It combines Resolve and Connect. network is "tcp", "tcp4"
// or "tcp6". address is "host:port" in the RDMA port space.
//
// If ctx ends first, Dial undoes the attempt and returns the context's error. If the peer
// refuses, the error is a *RejectError. If the peer is silent, only ctx and the kernel bound
// the wait. The kernel's bound is 69 to 102 seconds. On iWARP it is the 2 minutes of TCP and
// then 10 seconds.
//
// No RDMA device has a loopback address. To reach the local host, dial the address of one of
// its RDMA devices.
//
// On iWARP the kernel continues a dial whose context has ended, for up to two minutes if the
// peer does not answer. It then destroys the ID of the dial, which may take 10 seconds more. At
// most 256 dials of a process are in the kernel at a time. A further dial waits. It fails with
// EAGAIN if all 256 dials were cancelled.
//
// On iWARP the connecting side must be the first to send. A message that the other side sends
// before that ends the connection (RFC 5044, 7.1).
func Dial(ctx context.Context, network, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, network, address)
}

// Dial is like the function Dial, with the options of the Dialer.
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

// Resolve finds the device and the route to an address, and opens the device. network is one
// of Dial's networks, or "udp", "udp4" or "udp6" for datagrams: see [Resolved.Lookup].
func Resolve(ctx context.Context, network, address string) (*Resolved, error) {
	return new(Dialer).Resolve(ctx, network, address)
}

// Resolve is like the function Resolve, with the options of the Dialer.
func (d *Dialer) Resolve(ctx context.Context, network, address string) (*Resolved, error) {
	dst, ps, err := lookup(ctx, network, address, false, d.LocalAddr)
	if err != nil {
		return nil, &OpError{Op: opResolve, Err: err}
	}
	return d.ResolveAddr(ctx, ps, dst)
}

// ResolveAddr is like Resolve for an address in a port space, which needs no look-up.
func (d *Dialer) ResolveAddr(ctx context.Context, ps PortSpace, dst Addr) (*Resolved, error) {
	cdev.NeedContext(ctx)
	fail := func(err error) (*Resolved, error) {
		return nil, &OpError{Op: opResolve, Local: d.LocalAddr, Remote: dst, Err: err}
	}
	if !dst.IsValid() {
		return fail(errNoAddr)
	}
	options := connOptions{qp: d.QP, keepAlive: d.KeepAlive, receive: d.Receive, shared: d.Shared}
	if err := options.check(d.PD); err != nil {
		return fail(err)
	}
	if d.ResolveTimeout < 0 {
		return fail(fmt.Errorf("ResolveTimeout is %v: %w", d.ResolveTimeout, syscall.EINVAL))
	}
	if _, _, err := oneFamily(d.LocalAddr, dst); err != nil {
		return fail(err)
	}
	ch, err := NewEventChannel(d.Host)
	if err != nil {
		if ps.qpType() != verbs.UD {
			countersOf(cmp.Or(d.Host, verbs.DefaultHost())).dials.count(err)
		}
		return fail(err.(*OpError).Err)
	}
	return d.resolved(ctx, ch, ps, dst, options)
}

// resolved resolves the address and the route on a channel, which it closes after an error.
func (d *Dialer) resolved(ctx context.Context, ch *EventChannel, ps PortSpace, dst Addr, options connOptions) (*Resolved, error) {
	id, err := ch.NewID(IDConfig{PortSpace: ps, QPType: d.QP.Type, NetNS: d.NetNS})
	if err == nil {
		if err = d.resolve(ctx, id, dst); err == nil {
			r := &Resolved{pendingConn: pendingConn{ep: newEndpoint(ch, id), options: options}}
			r.options.choose(id, d.PD)
			go r.ep.pump()
			return r, nil
		}
		err = alsoFailed(err, id.Close())
	}
	if id == nil || !id.datagram() {
		ch.counters().dials.count(err)
	}
	return nil, alsoFailed(err, ch.Close())
}

func (d *Dialer) resolve(ctx context.Context, id *ID, dst Addr) error {
	timeout := cmp.Or(d.ResolveTimeout, defaultResolveTimeout)
	if deadline, ok := ctx.Deadline(); ok {
		// The kernel need not continue after ctx has ended.
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

// expect waits for the event that a call on an ID causes, on a channel that no other ID uses.
// It skips hints that arrive before that event.
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

// Resolved is a destination whose device and route are known. At this stage the active side
// makes its QP and posts its first receives. Only one goroutine may use a Resolved at a time.
type Resolved struct {
	pendingConn
}

// Connect connects to the destination (rdma_connect(3)). If qp is nil, Connect uses the QP
// that Init or QP chose. If param is nil, it uses the defaults of ConnParam. Connect uses up
// r, and a failed Connect closes it. If the kernel then fails to destroy an object, the error also has that failure, and
// [Resolved.Close] tries again. On iWARP the Conn must be the first to send: see Dial.
func (r *Resolved) Connect(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opConnect, errDatagram)
	}
	conn, err := r.connect(ctx, qp, param)
	if !errors.Is(err, errUsed) {
		r.ep.ch.counters().dials.count(err)
	}
	return conn, err
}

func (r *Resolved) connect(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	qp, err := r.take(opConnect, qp)
	if err != nil {
		return nil, err
	}
	if err := r.ask(ctx, param); err != nil {
		return nil, err
	}
	r.done.Store(true)
	conn := newConn(r.ep, qp)
	conn.begin(&r.options)
	return conn, nil
}

// Establish calls Connect, to implement [PendingConn].
func (r *Resolved) Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	return r.Connect(ctx, qp, param)
}

// ask sends the request and waits for its outcome.
func (r *Resolved) ask(ctx context.Context, param *ConnParam) error {
	err := r.ep.await(ctx, opConnect, connecting, func() error { return r.ep.id.Connect(param) })
	return hintOfSilence(err, r.ep.id.netNS)
}
