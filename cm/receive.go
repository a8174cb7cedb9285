// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/bridge"
	"purerdma/internal/cdev"
	"purerdma/pool"
	"purerdma/verbs"
)

// connOptions are the options of a connection that a Dialer and a ListenConfig have in common.
type connOptions struct {
	qp        verbs.QPConfig
	keepAlive time.Duration
	receive   *inflight.ReceiveConfig // or nil
	shared    *Shared                 // or nil
}

var errSharedOptions = fmt.Errorf("Shared with PD, which it replaces: %w", syscall.EINVAL)

// check returns why the options cannot be used, or nil.
func (o *connOptions) check(pd func(*verbs.Device) (*verbs.PD, error)) error {
	switch {
	case o.shared == nil:
	case pd != nil:
		return errSharedOptions
	case o.shared.config.Pool.Access&(verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic) != 0:
		return errSharedRemote
	}
	return nil
}

// choose sets the functions that make the objects of an ID. If the device has no shared receive queues, it
// replaces the Shared by receives of the connection's own.
func (o *connOptions) choose(id *ID, pd func(*verbs.Device) (*verbs.PD, error)) {
	id.pdOf = pd
	if o.shared == nil {
		return
	}
	if dev := id.Device(); dev != nil && dev.Attr().MaxSRQ == 0 {
		if o.receive == nil {
			o.receive = &inflight.ReceiveConfig{Size: o.shared.config.Receive.Size}
		}
		o.shared = nil
		return
	}
	id.pdOf, id.createQP = o.shared.pdOf, o.shared.createQP
}

// receiving is the part of an endpoint that takes messages.
type receiving struct {
	receiver *inflight.Receiver // or nil
	shared   *sharedDevice      // or nil

	mu     sync.Mutex // guards the following fields
	pool   *pool.Pool // of the connection, or nil
	closed bool

	// stops is set until stop has stopped the receiver. A function of context.AfterFunc would take 500
	// bytes for the time of the connection.
	stops atomic.Bool
}

// connSlab is the least size of the memory regions of a connection's own pool, in bytes. There may
// be many connections, and RLIMIT_MEMLOCK bounds them all.
const connSlab = 64 << 10

// poolOn returns the pool of the connection, on a PD. It makes the pool if need be, with memory
// regions of at least slab bytes.
func (r *receiving) poolOn(pd *verbs.PD, slab int) *pool.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool == nil {
		r.pool, _ = pool.New(pd, pool.Config{SlabSize: min(max(slab, connSlab), pool.DefaultSlabSize)}) // a valid Config
		if r.closed {
			r.pool.Close()
		}
	}
	return r.pool
}

// close closes the connection's own pool.
func (r *receiving) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.pool == nil {
		return nil
	}
	return r.pool.Close()
}

// startReceives posts the receives of a connection that will have a QP.
func (p *pendingConn) startReceives(qp *verbs.QP) error {
	r := &p.ep.receiving
	var err error
	switch o := &p.options; {
	case o.shared != nil:
		var d *sharedDevice
		if d, err = o.shared.on(qp.Device()); err == nil {
			r.shared = d
			r.receiver, err = d.receives.Receiver(qp)
		}
	case o.receive != nil:
		depth, size := cmp.Or(o.receive.Depth, qp.Cap().RecvWR), cmp.Or(o.receive.Size, inflight.DefaultMessageSize)
		r.receiver, err = inflight.NewReceiver(qp, r.poolOn(qp.PD(), depth*size), *o.receive)
	}
	if err != nil {
		return p.ep.id.opError(opRecv, err)
	}
	return nil
}

// Pool returns a pool of PD. It is the pool of the Shared, or otherwise belongs to the connection.
// Then its memory regions have 64 KiB, or as much as the receives need, and it is closed with the
// connection. The memory has no remote rights, so a device on which READs need them
// (verbs.Features.ReadNeedsRemoteWrite) may refuse a READ into it. siw does not refuse it.
func (c *Conn) Pool() *pool.Pool {
	if d := c.ep.receiving.shared; d != nil {
		return d.pool
	}
	return c.ep.receiving.poolOn(c.qp.PD(), 0)
}

var errNoReceiver = fmt.Errorf("neither Receive nor Shared is set in the Dialer or ListenConfig: %w", syscall.EINVAL)

// Receive waits for a message of the peer. It needs the option Receive or Shared of the Dialer or
// ListenConfig, with which the library posts receives. The message is in the buffer of its
// receive, and belongs to the caller until Message.Free. Any number of goroutines may call Receive
// at a time.
//
// Receive returns io.EOF when the peer has disconnected and all earlier messages have been taken. If
// the QP has failed, the error is a *BrokenError. If ctx ends first, it is the error of ctx, and the
// messages remain. After Close it is net.ErrClosed.
func (c *Conn) Receive(ctx context.Context) (*inflight.Message, error) {
	cdev.NeedContext(ctx)
	r := c.ep.receiving.receiver
	switch {
	case r == nil:
		return nil, c.ep.id.opError(opRecv, errNoReceiver)
	case c.ep.id.gate.isShut():
		return nil, c.ep.id.opError(opRecv, net.ErrClosed)
	}
	m, err := r.Receive(ctx)
	if err != nil {
		return nil, c.ended(opRecv, err)
	}
	c.alive.Load().touch()
	return m, nil
}

// HandleMessages passes the messages to fn instead of Receive, as [inflight.Receiver.Handle] does. Then
// the connection needs no goroutine to wait for messages. fn must free each message. It must not
// block, so it must not call Send, Op.Wait or another function that waits. StartSend and Op.Detach
// are allowed. At the end fn is called once, on a goroutine of its own, with the error that Receive
// would return, and no message. HandleMessages is called once, while no goroutine calls Receive. It
// panics if neither of the options Receive and Shared is set.
func (c *Conn) HandleMessages(fn func(*inflight.Message, error)) {
	c.handleMessages(fn, (*inflight.Receiver).Handle)
}

// HandleMessagesLazily is like HandleMessages, but messages are taken while a goroutine waits for an
// [inflight.Signal] on the receive CQ, or when none has waited for the time after: see
// [inflight.Receiver.HandleLazily].
func (c *Conn) HandleMessagesLazily(fn func(*inflight.Message, error), after time.Duration) {
	c.handleMessages(fn, func(r *inflight.Receiver, fn func(*inflight.Message, error)) { r.HandleLazily(fn, after) })
}

func (c *Conn) handleMessages(fn func(*inflight.Message, error), handle func(*inflight.Receiver, func(*inflight.Message, error))) {
	r := c.ep.receiving.receiver
	if r == nil {
		panic("cm: HandleMessages of a connection: " + errNoReceiver.Error())
	}
	handle(r, func(m *inflight.Message, err error) {
		if err != nil {
			go func() { fn(nil, c.ended(opRecv, err)) }() // ended waits for operations that this goroutine may complete
			return
		}
		c.alive.Load().touch()
		fn(m, nil)
	})
}

// begin starts what a new connection does by itself.
func (c *Conn) begin(o *connOptions) {
	c.startKeepAlive(o.keepAlive)
	verbsInternal.Watch(c.qp, bridge.Watch{Failed: c.qpFailed, UntilReset: true})
	if r := &c.ep.receiving; r.receiver != nil {
		r.stops.Store(true)
		if c.ep.over.Err() != nil { // markOver may have come before
			r.stop()
		}
	}
}

// stop ends the receiver after the end of a connection that has begun. Without posted receives of its own, the
// end of a connection flushes nothing.
func (r *receiving) stop() {
	if r.stops.CompareAndSwap(true, false) {
		go r.receiver.Stop() // which polls
	}
}
