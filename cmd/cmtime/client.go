// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
)

// client makes all connections, one step at a time.
type client struct {
	opt           *options
	u             *tool.UI
	ch            *cm.EventChannel
	local, remote cm.Addr
	conns         []*conn
	byID          tool.ByID[conn]
	qps           *maker
	totals        [numSteps]span

	// State that is changed by events and by failed calls.
	state struct {
		tool.Waiter
		current step  // the awaited step
		pending int   // connections that have not completed it
		lost    error // error that ended the events
		failed  int   // failed connections
	}
}

// runClient connects and disconnects, and prints the times. Unlike the C program it fails if a
// connection has failed.
func runClient(ctx context.Context, ch *cm.EventChannel, opt *options, u *tool.UI) error {
	c := &client{opt: opt, u: u, ch: ch, qps: newMaker()}
	defer c.qps.close()
	err := c.create()
	if err != nil {
		return err
	}
	pump := tool.StartPump(ctx, ch, c.handle, func(err error) {
		u.Perror("failure in rdma_get_cm_event in process_server_events", err)
		c.state.Do(func() { c.state.lost = err })
	})
	err = c.steps(ctx)
	c.destroy()
	pump.Stop()
	printTable(u, &c.totals, c.conns, c.local.IsValid())
	if err == nil && c.state.failed > 0 {
		err = fmt.Errorf("%d of %d connections failed", c.state.failed, len(c.conns))
		u.Fail(err)
	}
	return err
}

// create creates the IDs.
func (c *client) create() error {
	c.u.Printf("creating id\n")
	total := &c.totals[stepCreateID]
	total.start()
	for range c.opt.conns {
		cn := new(conn)
		cn.times[stepCreateID].start()
		id, err := c.ch.NewID(cm.IDConfig{})
		if err != nil {
			c.u.Fail(err)
			return err
		}
		cn.times[stepCreateID].stop()
		cn.id = id
		c.byID.Store(id, cn)
		c.conns = append(c.conns, cn)
	}
	total.stop()
	return nil
}

// steps runs the steps between creation and destruction.
func (c *client) steps(ctx context.Context) error {
	var err error
	if c.local, c.remote, err = c.opt.names.Resolve(ctx); err != nil {
		c.u.Printf("getaddrinfo error: %s\n", addrinfo.Strerror(err))
		c.u.Fail(err)
		return err
	}
	if c.local.IsValid() {
		c.u.Printf("binding source address\n")
		c.calls(stepBind, "failure bind addr", func(cn *conn) error { return cn.id.Bind(c.local) })
	}
	c.u.Printf("resolving address\n")
	if err := c.awaited(ctx, stepResolveAddr, "failure getting addr", c.resolveAddr); err != nil {
		return err
	}
	c.u.Printf("resolving route\n")
	if err := c.awaited(ctx, stepResolveRoute, "failure resolving route", c.resolveRoute); err != nil {
		return err
	}
	c.u.Printf("creating qp\n")
	c.calls(stepCreateQP, "failure creating qp", func(cn *conn) (err error) {
		cn.qp, err = c.qps.create(cn.id)
		return err
	})
	c.u.Printf("connecting\n")
	if err := c.awaited(ctx, stepConnect, "failure rconnecting", c.connect); err != nil {
		return err
	}
	c.u.Printf("disconnecting\n")
	return c.awaited(ctx, stepDisconnect, "failure disconnecting", func(cn *conn) error {
		err := cn.id.Disconnect()
		cn.qp.Close()
		return err
	})
}

func (c *client) resolveAddr(cn *conn) error {
	cn.retries = c.opt.retries
	return cn.id.ResolveAddr(c.local, c.remote, c.opt.timeout)
}

func (c *client) resolveRoute(cn *conn) error {
	cn.retries = c.opt.retries
	return cn.id.ResolveRoute(c.opt.timeout)
}

func (c *client) connect(cn *conn) error {
	return cn.id.Connect(&cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: tool.Count(c.opt.retries), RNRRetryCount: cm.None})
}

// calls runs a step that consists of a call.
func (c *client) calls(s step, failure string, call func(*conn) error) {
	total := &c.totals[s]
	total.start()
	for _, cn := range c.standing(s) {
		cn.times[s].start()
		if err := call(cn); err != nil {
			c.fail(cn, failure, err)
			continue
		}
		cn.times[s].stop()
	}
	total.stop()
}

// standing returns the connections that have not failed. It marks them as pending for a step.
func (c *client) standing(s step) (conns []*conn) {
	c.state.Do(func() {
		for _, cn := range c.conns {
			if !cn.failed {
				conns = append(conns, cn)
			}
		}
		c.state.current, c.state.pending = s, len(conns)
	})
	return conns
}

// awaited runs a step that starts with a call and ends with an event.
func (c *client) awaited(ctx context.Context, s step, failure string, call func(*conn) error) error {
	total := &c.totals[s]
	total.start()
	defer total.stop()
	for portion, pending := range portions(c.standing(s)) {
		for _, cn := range portion {
			cn.times[s].start() // before its event can arrive
			if err := call(cn); err != nil {
				c.fail(cn, failure, err)
				c.state.Do(func() { c.state.pending-- })
			}
		}
		if err := c.untilPending(ctx, pending); err != nil {
			return err
		}
	}
	return nil
}

// untilPending waits until at most pending connections have not completed the step.
func (c *client) untilPending(ctx context.Context, pending int) error {
	var lost error
	err := c.state.Until(ctx, func() bool {
		lost = c.state.lost
		return c.state.pending <= pending || lost != nil
	})
	if err == nil {
		err = lost
	}
	return err
}

// fail marks a connection as failed.
func (c *client) fail(cn *conn, what string, err error) {
	c.u.Perror(what, err)
	c.state.Do(func() { cn.failed = true; c.state.failed++ })
}

// destroy releases everything.
func (c *client) destroy() {
	c.u.Printf("destroying id\n")
	total := &c.totals[stepDestroy]
	total.start()
	for _, cn := range c.conns {
		cn.times[stepDestroy].start()
		cn.id.Close()
		cn.times[stepDestroy].stop()
	}
	total.stop()
	for _, cn := range c.conns {
		if cn.qp != nil {
			cn.qp.Close() // for connections that did not disconnect
		}
	}
}
