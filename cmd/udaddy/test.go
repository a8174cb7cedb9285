// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// resolveTimeout is the time limit for an address, and then for a route.
const resolveTimeout = 2 * time.Second

// test is one run of either side.
type test struct {
	opt   *options
	u     *tool.UI
	ch    *cm.EventChannel
	pump  *tool.Pump
	found *tool.Goal        // counts the resolved destinations
	nodes []*tool.Datagrams // all destinations of the client, or the answered ones of the server
	byID  tool.ByID[tool.Datagrams]
}

// newTest creates the channel, and the IDs of a client. It prints a failure.
func newTest(opt *options, u *tool.UI) (*test, error) {
	ch, err := tool.OpenChannel(u)
	if err != nil {
		return nil, err
	}
	t := &test{opt: opt, u: u, ch: ch, found: tool.NewGoal(opt.conns)}
	if opt.names.Dest == "" {
		return t, nil
	}
	for range opt.conns {
		id, err := ch.NewID(cm.IDConfig{PortSpace: opt.names.Space})
		if err != nil {
			u.Fail(err)
			ch.Close()
			return nil, err
		}
		t.add(id)
	}
	return t, nil
}

func (t *test) add(id *cm.ID) *tool.Datagrams {
	n := &tool.Datagrams{ID: id, U: t.u, Count: t.opt.count, Size: t.opt.size}
	t.byID.Store(id, n)
	t.nodes = append(t.nodes, n)
	return n
}

// fetch starts to fetch events.
func (t *test) fetch(ctx context.Context) {
	t.pump = tool.StartPump(ctx, t.ch, t.handle, func(err error) {
		t.u.Fail(err)
		t.found.Fail(err)
	})
}

// handle processes an event. It runs in the goroutine that fetches events.
func (t *test) handle(ev *cm.Event) {
	n := t.byID.Load(ev.ID)
	switch ev.Type {
	case cm.EventAddrResolved:
		t.found.Fail(t.resolveRoute(n))
	case cm.EventRouteResolved:
		t.found.Fail(t.lookUp(n))
	case cm.EventConnectRequest:
		t.answer(ev.ID)
	case cm.EventEstablished:
		if err := n.Address(&ev.UD); err != nil {
			t.found.Fail(err)
			return
		}
		t.found.Done()
	case cm.EventAddrError, cm.EventRouteError, cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
		t.u.Printf("udaddy: event: %v, error: %d\n", ev.Type, ev.Status)
		t.u.Fail(ev.Err())
		t.found.Fail(tool.EventError(ev))
	case cm.EventDeviceRemoval:
		t.u.Fail(ev.Err())
		t.found.Fail(ev.Err())
	}
}

func (t *test) resolveRoute(n *tool.Datagrams) error {
	if t.opt.tos != nil {
		if err := n.ID.SetTOS(*t.opt.tos); err != nil {
			t.u.Perror("udaddy: set TOS option failed", err)
		}
	}
	err := n.ID.ResolveRoute(resolveTimeout)
	if err != nil {
		t.u.Perror("udaddy: resolve route failed", err)
	}
	return err
}

// lookUp requests a destination from the server.
func (t *test) lookUp(n *tool.Datagrams) error {
	if err := n.Init(); err != nil {
		return err
	}
	if err := n.PostRecvs(); err != nil {
		return err
	}
	err := n.ID.Connect(&cm.ConnParam{})
	if err != nil {
		t.u.Perror("udaddy: failure connecting", err)
	}
	return err
}

var errTooMany = errors.New("rejected a request for a destination in excess of -c")

// answer returns a destination to a client. It rejects requests in excess of -c. Unlike in C,
// the other destinations then continue.
func (t *test) answer(id *cm.ID) {
	if len(t.nodes) == t.opt.conns {
		t.u.Printf("udaddy: failing connection request\n")
		t.u.Fail(errTooMany)
		id.Reject(nil)
		id.Close()
		return
	}
	n := t.add(id)
	err := n.Init()
	if err == nil {
		err = n.PostRecvs()
	}
	if err == nil {
		if err = id.Accept(&cm.ConnParam{}); err != nil {
			t.u.Perror("udaddy: failure accepting", err)
		}
	}
	if err != nil {
		t.u.Printf("udaddy: failing connection request\n")
		id.Reject(nil)
		t.found.Fail(err)
		return
	}
	t.found.Done()
}

// forEach runs fn for every destination, until one fails.
func (t *test) forEach(fn func(*tool.Datagrams) error) error {
	for _, n := range t.nodes {
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// await waits for all completions. On the server it determines the destinations of the answers.
func (t *test) await(ctx context.Context) error {
	return t.forEach(func(n *tool.Datagrams) error {
		return n.Await(ctx, func(wc *verbs.WC) error {
			if n.AH != nil {
				return nil
			}
			err := n.AnswerTo(wc)
			if err != nil {
				t.u.Printf("udaddy: failed to create reply AH\n")
			}
			return err
		})
	})
}

// close releases everything.
func (t *test) close() {
	if t.pump != nil {
		t.pump.Stop()
	}
	for _, n := range t.nodes {
		n.Close()
	}
	t.ch.Close()
}
