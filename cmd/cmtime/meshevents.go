// SPDX-License-Identifier: Apache-2.0

package main

import (
	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

// handle processes an event. It runs in the goroutine that fetches events.
func (m *mesh) handle(ev *cm.Event) {
	c := m.byID.Load(ev.ID)
	if c == nil && ev.Type != cm.EventConnectRequest {
		if ev.Err() != nil {
			m.fail(ev.Err())
		}
		return
	}
	switch ev.Type {
	case cm.EventAddrResolved:
		c.times[meshResolveAddr].stop()
		m.step(meshResolveAddr, nil)
	case cm.EventRouteResolved:
		c.times[meshResolveRoute].stop()
		m.step(meshResolveRoute, nil)
	case cm.EventConnectRequest:
		m.request(ev.ID)
	case cm.EventConnectResponse:
		m.work <- func() { m.confirm(c) }
	case cm.EventEstablished:
		m.state.Do(func() {
			if m.state.done[meshConnect]++; m.state.done[meshConnect] == len(m.state.conns) {
				m.totals[meshConnect].stop()
			}
		})
	case cm.EventAddrError:
		if c.again(func() error { return c.id.ResolveAddr(m.local, c.to, m.opt.timeout) }) {
			return
		}
		m.u.Printf("RDMA_CM_EVENT_ADDR_ERROR, error: %d\n", ev.Status)
		m.fail(tool.EventError(ev))
	case cm.EventRouteError:
		if c.again(func() error { return c.id.ResolveRoute(m.opt.timeout) }) {
			return
		}
		m.u.Printf("RDMA_CM_EVENT_ROUTE_ERROR, error: %d\n", ev.Status)
		m.fail(tool.EventError(ev))
	case cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
		m.u.Printf("event: %v, error: %d\n", ev.Type, ev.Status)
		m.fail(tool.EventError(ev))
	case cm.EventDisconnected:
		m.gone(c)
	case cm.EventDeviceRemoval:
		m.fail(ev.Err())
	}
}

// again retries resolving while there are retries left.
func (c *meshConn) again(resolve func() error) bool {
	c.retries--
	return c.retries >= 0 && resolve() == nil
}
