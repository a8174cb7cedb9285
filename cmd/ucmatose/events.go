// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// handle processes an event. It runs in the goroutine that fetches events.
func (t *test) handle(ev *cm.Event) {
	n := t.byID.Load(ev.ID)
	switch ev.Type {
	case cm.EventConnectRequest:
		t.request(ev.ID)
	case cm.EventAddrResolved:
		t.attempt(n.resolveRoute())
	case cm.EventRouteResolved:
		t.attempt(n.connect())
	case cm.EventEstablished:
		n.connected.Store(true)
		t.state.Do(func() { t.state.connects--; t.state.disconnects++ })
	case cm.EventAddrError, cm.EventRouteError, cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
		if n != nil && n.connected.Load() {
			return // a hint about an established connection
		}
		t.u.Printf("cmatose: event: %v, error: %d\n", ev.Type, ev.Status)
		t.u.Fail(ev.Err())
		t.attempt(tool.EventError(ev))
	case cm.EventDisconnected:
		ev.ID.Disconnect() // the answer
		if n != nil && n.connected.Swap(false) {
			t.state.Do(func() { t.state.disconnects-- })
		}
	case cm.EventDeviceRemoval:
		t.u.Fail(ev.Err())
		t.fail(ev.Err())
	}
}

// attempt ends the run if a connection attempt has failed.
func (t *test) attempt(err error) {
	if err != nil {
		t.fail(err)
	}
}

func (n *node) resolveRoute() error {
	u, opt := n.test.u, n.test.opt
	if opt.tos != nil {
		if err := n.id.SetTOS(*opt.tos); err != nil {
			u.Perror("cmatose: set TOS option failed", err)
		}
	}
	n.setAckTimeout()
	err := n.id.ResolveRoute(resolveTimeout)
	if err != nil {
		u.Perror("cmatose: resolve route failed", err)
	}
	return err
}

func (n *node) setAckTimeout() {
	if timeout := n.test.opt.ackTimeout; timeout != nil {
		if err := n.id.SetAckTimeout(verbs.DecodeAckTimeout(*timeout)); err != nil {
			n.test.u.Perror("cmatose: set ack timeout option failed", err)
		}
	}
}

func (n *node) connect() error {
	if err := n.init(); err != nil {
		return err
	}
	if err := n.postRecvs(); err != nil {
		return err
	}
	err := n.id.Connect(&cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5, RNRRetryCount: cm.None})
	if err != nil {
		n.test.u.Perror("cmatose: failure connecting", err)
	}
	return err
}

var errTooMany = errors.New("rejected a connect request in excess of -c")

// request accepts a connect request. It rejects requests in excess of -c. Unlike in C, the
// other connections then continue.
func (t *test) request(id *cm.ID) {
	if len(t.nodes) == t.opt.conns {
		t.u.Printf("cmatose: failing connection request\n")
		t.u.Fail(errTooMany)
		id.Reject(nil)
		id.Close()
		return
	}
	n := &node{test: t, id: id}
	t.byID.Store(id, n)
	t.state.Do(func() { t.nodes = append(t.nodes, n) })
	err := n.accept()
	if err != nil {
		t.u.Printf("cmatose: failing connection request\n")
		id.Reject(nil)
	}
	t.attempt(err)
}

func (n *node) accept() error {
	if err := n.init(); err != nil {
		return err
	}
	n.setAckTimeout()
	if err := n.postRecvs(); err != nil {
		return err
	}
	err := n.id.Accept(tool.NullConnParam())
	if err != nil {
		n.test.u.Perror("cmatose: failure accepting", err)
	}
	return err
}
