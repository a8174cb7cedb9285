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
	comp  tool.PerDevice[*verbs.CompChannel]
	nodes []*node // all connections of the client, or the accepted ones of the server
	byID  tool.ByID[node]

	// State that is changed by events. The C program has the same counters.
	state struct {
		tool.Waiter
		connects    int   // connections that are not established yet
		disconnects int   // established connections
		failed      error // the first failure, which ends the run
	}
}

// newTest creates the channel, and the IDs of a client. It prints a failure.
func newTest(opt *options, u *tool.UI) (*test, error) {
	ch, err := tool.OpenChannel(u)
	if err != nil {
		return nil, err
	}
	t := &test{opt: opt, u: u, ch: ch}
	t.comp.Make = (*verbs.Device).CreateCompChannel
	t.state.connects = opt.conns
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
		n := &node{test: t, id: id}
		t.byID.Store(id, n)
		t.nodes = append(t.nodes, n)
	}
	return t, nil
}

// fetch starts to fetch events.
func (t *test) fetch(ctx context.Context) {
	t.pump = tool.StartPump(ctx, t.ch, t.handle, func(err error) {
		t.u.Perror("cmatose: failure in rdma_get_cm_event in connect events", err)
		t.fail(err)
	})
}

// fail ends the run. The first failure becomes the run's result.
func (t *test) fail(err error) {
	t.state.Do(func() {
		if t.state.failed == nil {
			t.state.failed = err
		}
	})
}

// connected waits until all connections are established or one has failed.
func (t *test) connected(ctx context.Context) error {
	return t.until(ctx, func() bool { return t.state.connects <= 0 })
}

// disconnected waits until all connections have ended.
func (t *test) disconnected(ctx context.Context) error {
	return t.until(ctx, func() bool { return t.state.disconnects <= 0 })
}

func (t *test) until(ctx context.Context, done func() bool) error {
	var failed error
	err := t.state.Until(ctx, func() bool {
		failed = t.state.failed
		return failed != nil || done()
	})
	return errors.Join(err, failed)
}

// forEach runs fn for every connection, until one fails.
func (t *test) forEach(fn func(*node) error) error {
	for _, n := range t.nodes {
		if err := fn(n); err != nil {
			return err
		}
	}
	return nil
}

// migrate moves every ID to a new channel, including listener, if there is one.
func (t *test) migrate(ctx context.Context, listener *cm.ID) error {
	t.u.Printf("migrating to new event channel\n")
	ch, err := tool.OpenChannel(t.u)
	if err != nil {
		return err
	}
	t.pump.Stop()
	if listener != nil {
		err = listener.Migrate(ch)
	}
	for _, n := range t.nodes {
		if err == nil {
			err = n.id.Migrate(ch)
		}
	}
	if err != nil {
		t.u.Perror("cmatose: failure migrating to channel", err)
		ch.Close()
		return err
	}
	t.ch.Close()
	t.ch = ch
	t.fetch(ctx)
	return nil
}

// close releases everything.
func (t *test) close() {
	if t.pump != nil {
		t.pump.Stop()
	}
	for _, n := range t.nodes {
		n.close()
	}
	t.nodes = nil
	t.comp.Close()
	t.ch.Close()
}
