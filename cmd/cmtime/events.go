// SPDX-License-Identifier: Apache-2.0

package main

import "purerdma/cm"

// handle processes an event of the client. It runs in the goroutine that fetches events.
func (c *client) handle(ev *cm.Event) {
	cn := c.byID.Load(ev.ID)
	if cn == nil {
		return
	}
	switch ev.Type {
	case cm.EventAddrResolved:
		c.done(cn, stepResolveAddr, false)
	case cm.EventRouteResolved:
		c.done(cn, stepResolveRoute, false)
	case cm.EventEstablished:
		c.done(cn, stepConnect, false)
	case cm.EventDisconnected:
		c.done(cn, stepDisconnect, false)
	case cm.EventAddrError:
		if cn.again(func() error { return cn.id.ResolveAddr(c.local, c.remote, c.opt.timeout) }) {
			return
		}
		c.report("RDMA_CM_EVENT_ADDR_ERROR", ev)
		c.done(cn, stepResolveAddr, true)
	case cm.EventRouteError:
		if cn.again(func() error { return cn.id.ResolveRoute(c.opt.timeout) }) {
			return
		}
		c.report("RDMA_CM_EVENT_ROUTE_ERROR", ev)
		c.done(cn, stepResolveRoute, true)
	case cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
		if ev.ID.State() != cm.StateFailed {
			return // a hint about an established connection
		}
		c.report("event: "+ev.Type.String(), ev)
		c.done(cn, stepConnect, true)
	case cm.EventDeviceRemoval:
		c.u.Fail(ev.Err())
		c.state.Do(func() { c.state.lost = ev.Err() })
	}
}

// report prints the event of a failed step.
func (c *client) report(event string, ev *cm.Event) {
	c.u.Printf("%s, error: %d\n", event, ev.Status)
	c.u.Fail(ev.Err())
}

// again retries resolving while there are retries left.
func (cn *conn) again(resolve func() error) bool {
	cn.retries--
	return cn.retries >= 0 && resolve() == nil
}

// done completes a step of a connection. A connection counts as failed if it ends before the
// awaited step, for example because the server disconnects early.
func (c *client) done(cn *conn, s step, failed bool) {
	c.state.Do(func() {
		cn.times[s].stop()
		early := s != c.state.current
		if (failed || early) && !cn.failed {
			cn.failed = true
			c.state.failed++
		}
		if !early {
			c.state.pending--
		}
	})
}
