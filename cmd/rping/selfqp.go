// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"purerdma/cm"
	"purerdma/verbs"
)

// With -q the connection manager does not know the QP. This program moves the QP from state to
// state and handles each event, like programs that are written for librdmacm.

// expect waits for an event of an ID that has its own channel.
func expect(ctx context.Context, id *cm.ID, want cm.EventType) (*cm.Event, error) {
	for {
		ev, err := id.Channel().Next(ctx)
		if err != nil {
			return nil, err
		}
		ev.Ack()
		if ev.Type == want {
			return ev, nil
		}
		if err := ev.Err(); err != nil {
			return nil, err
		}
	}
}

// selfPending is a connection that is not yet established. On the passive side it has a
// request.
type selfPending struct {
	ch      *cm.EventChannel
	id      *cm.ID
	request *cm.ConnParam
}

func (p *selfPending) Device() *verbs.Device { return p.id.Device() }

// Init moves the QP to INIT without rights for the peer. The connection manager supplies those
// later.
func (p *selfPending) Init(qp *verbs.QP) error {
	return qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: p.id.Port()},
		verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
}

func (p *selfPending) finish(ctx context.Context, qp *verbs.QP) (conn, error) {
	how := p.connect
	if p.request != nil {
		how = p.accept
	}
	if err := how(ctx, qp); err != nil {
		p.Close()
		return nil, err
	}
	return newSelfConn(p.ch, p.id, qp), nil
}

func (p *selfPending) connect(ctx context.Context, qp *verbs.QP) error {
	param := connParam()
	param.QPNum = qp.Num()
	if err := p.id.Connect(param); err != nil {
		return err
	}
	if p.iwarp() {
		return p.established(ctx, qp)
	}
	if _, err := expect(ctx, p.id, cm.EventConnectResponse); err != nil {
		return err
	}
	if err := p.move(qp, param); err != nil {
		p.id.Reject(nil)
		return err
	}
	return p.id.Establish()
}

func (p *selfPending) accept(ctx context.Context, qp *verbs.QP) error {
	if p.request.InitiatorDepth == 0 {
		p.id.Reject(nil)
		return errNoReads
	}
	param := connParam()
	param.QPNum = qp.Num()
	param.ResponderResources = min(param.ResponderResources, p.request.ResponderResources)
	if !p.iwarp() {
		if err := p.move(qp, param); err != nil {
			p.id.Reject(nil)
			return err
		}
	}
	if err := p.id.Accept(param); err != nil {
		return err
	}
	return p.established(ctx, qp)
}

// established waits until the connection is established. On iWARP the kernel has then moved the
// QP.
func (p *selfPending) established(ctx context.Context, qp *verbs.QP) error {
	_, err := expect(ctx, p.id, cm.EventEstablished)
	if err == nil && p.iwarp() {
		qp.SetState(verbs.QPRTS)
	}
	return err
}

func (p *selfPending) iwarp() bool { return p.Device().Transport() == verbs.TransportIWARP }

// move moves the QP to RTS with the attributes that the kernel computes. The kernel has only
// the request's depths, so move replaces them by the depths of agreed.
func (p *selfPending) move(qp *verbs.QP, agreed *cm.ConnParam) error {
	for _, to := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		attr, mask, err := p.id.InitQPAttr(to)
		if err != nil {
			return err
		}
		attr.MaxDestRdAtomic = min(attr.MaxDestRdAtomic, uint8(agreed.ResponderResources))
		attr.MaxRdAtomic = min(attr.MaxRdAtomic, uint8(agreed.InitiatorDepth))
		if err := qp.Modify(&attr, mask); err != nil {
			return err
		}
	}
	return nil
}

func (p *selfPending) Close() error {
	return errors.Join(p.id.Close(), p.ch.Close())
}

// selfDial resolves the address and the route.
func selfDial(ctx context.Context, opt *options) (pending, error) {
	p, err := newSelfPending()
	if err != nil {
		return nil, err
	}
	if err := p.resolve(ctx, opt); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func newSelfPending() (*selfPending, error) {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		return nil, err
	}
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		ch.Close()
		return nil, err
	}
	return &selfPending{ch: ch, id: id}, nil
}

func (p *selfPending) resolve(ctx context.Context, opt *options) error {
	src, dst := endpoints(opt)
	if err := p.id.ResolveAddr(src, dst, resolveTimeout); err != nil {
		return err
	}
	if _, err := expect(ctx, p.id, cm.EventAddrResolved); err != nil {
		return err
	}
	if err := p.id.ResolveRoute(resolveTimeout); err != nil {
		return err
	}
	_, err := expect(ctx, p.id, cm.EventRouteResolved)
	return err
}

// selfListener accepts connect requests from an event channel.
type selfListener struct{ *selfPending }

func selfListen(ctx context.Context, opt *options) (listener, error) {
	p, err := newSelfPending()
	if err != nil {
		return nil, err
	}
	_, local := endpoints(opt)
	if err = p.id.Bind(local); err == nil {
		err = p.id.Listen(backlog)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return selfListener{p}, nil
}

// accept migrates each request to its own channel, so that clients do not wait for each other.
func (l selfListener) accept(ctx context.Context) (pending, string, error) {
	for {
		ev, err := expect(ctx, l.id, cm.EventConnectRequest)
		if err != nil {
			return nil, "", err
		}
		ch, err := cm.NewEventChannel(nil)
		if err != nil {
			ev.ID.Close()
			return nil, "", err
		}
		if err := ev.ID.Migrate(ch); err != nil {
			// Most likely, the client has left.
			ev.ID.Close()
			ch.Close()
			continue
		}
		return &selfPending{ch: ch, id: ev.ID, request: &ev.Conn}, ev.ID.RemoteAddr().String(), nil
	}
}

// selfConn is an established connection whose QP is unknown to the connection manager.
type selfConn struct {
	ch *cm.EventChannel
	id *cm.ID
	qp *verbs.QP

	done chan struct{} // closed when the peer or the device ends the connection
	end  cm.End
	pump sync.WaitGroup
}

func newSelfConn(ch *cm.EventChannel, id *cm.ID, qp *verbs.QP) *selfConn {
	c := &selfConn{ch: ch, id: id, qp: qp, done: make(chan struct{})}
	c.pump.Go(c.events)
	return c
}

// events waits for the end of the connection, until the channel is closed.
func (c *selfConn) events() {
	for ev, err := range c.ch.Events(context.Background()) {
		if err != nil {
			return
		}
		ev.Ack()
		switch ev.Type {
		case cm.EventDisconnected:
			c.flush()
			c.id.Disconnect() // the answer, if the peer disconnected first
			c.finish(ev)
		case cm.EventDeviceRemoval:
			c.finish(ev)
		}
	}
}

func (c *selfConn) finish(ev *cm.Event) {
	select {
	case <-c.done:
	default:
		c.end = cm.End{Event: ev.Type, Status: ev.Status}
		close(c.done)
	}
}

// flush flushes the posted requests.
func (c *selfConn) flush() error {
	return c.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

func (c *selfConn) ID() *cm.ID { return c.id }

func (c *selfConn) Done() <-chan struct{} { return c.done }

func (c *selfConn) Wait(ctx context.Context) (cm.End, error) {
	select {
	case <-c.done:
		return c.end, nil
	case <-ctx.Done():
		return cm.End{}, ctx.Err()
	}
}

func (c *selfConn) Disconnect(ctx context.Context) (cm.End, error) {
	if err := c.flush(); err != nil {
		return cm.End{}, err
	}
	if err := c.id.Disconnect(); err != nil {
		return cm.End{}, err
	}
	return c.Wait(ctx)
}

func (c *selfConn) Explain(err error) error {
	return fmt.Errorf("connection %v->%v: %w", c.id.LocalAddr(), c.id.RemoteAddr(), err)
}

func (c *selfConn) Close() error {
	err := errors.Join(c.id.Close(), c.ch.Close())
	c.pump.Wait()
	return err
}
