// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// mesh is a run of the newer versions. It has three rounds of connections: a warm-up, one with
// QPs, and between two peers one without QPs.
type mesh struct {
	opt   *meshOptions
	u     *tool.UI
	ch    *cm.EventChannel
	oob   *oob
	local cm.Addr
	peers []peer
	work  chan func()
	cqs   tool.PerDevice[*verbs.CQ]
	byID  tool.ByID[meshConn]

	qps   bool // whether the round has QPs
	delay time.Duration
	qpn   atomic.Uint32 // number of the next simulated QP

	totals [numMeshSteps]span
	state  struct {
		tool.Waiter
		conns  []*meshConn
		came   int // connect requests of this round
		left   int // disconnects of this round
		done   [numMeshSteps]int
		failed error
	}
}

// meshConn is one connection of either side.
type meshConn struct {
	id      *cm.ID
	qp      *verbs.QP // nil in a round without QPs
	sock    net.Conn  // TCP socket of -S, used instead of id and qp
	to      cm.Addr
	times   [numMeshSteps]span
	retries int
	over    bool // whether the server has answered its disconnect
}

// runMesh runs the newer version of the program.
func runMesh(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("cmtime", stdout, stderr)
	opt, err := parseMesh(args, u)
	if err != nil {
		u.Usage(err, meshUsage)
		return statusUsage
	}
	if err = meshRun(ctx, opt, u); err == nil {
		err = u.Failure()
	}
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	return 0
}

func meshRun(ctx context.Context, opt *meshOptions, u *tool.UI) error {
	ip, err := tool.LookupHost(ctx, opt.source)
	if err != nil {
		return err
	}
	ch, err := tool.OpenChannel(u)
	if err != nil {
		return err
	}
	defer ch.Close()
	m := &mesh{opt: opt, u: u, ch: ch, local: cm.AddrFrom(netip.AddrPortFrom(ip, 0)), qps: true, work: make(chan func(), queued)}
	m.cqs.Make = func(dev *verbs.Device) (*verbs.CQ, error) {
		u.Printf("\tAllocating verbs resources\n")
		return dev.CreateCQ(verbs.CQConfig{Entries: 1, NoEvents: true})
	}
	defer m.cqs.Close()
	defer m.startWorkers()()
	pump := tool.StartPump(ctx, ch, m.handle, m.fail)
	defer pump.Stop()
	return m.rounds(ctx)
}

// startWorkers starts the goroutines that run the steps. The returned function ends them.
func (m *mesh) startWorkers() (stop func()) {
	var workers sync.WaitGroup
	for range m.opt.threads {
		workers.Go(func() {
			for fn := range m.work {
				fn()
			}
		})
	}
	return func() {
		close(m.work)
		workers.Wait()
	}
}

// rounds meets the peers and runs the rounds.
func (m *mesh) rounds(ctx context.Context) error {
	self := peer{listen: m.opt.listen}
	if m.opt.listen && !m.opt.sockets {
		id, err := m.listen()
		if err != nil {
			return err
		}
		defer id.Close()
		self.addr = id.LocalAddr()
	}
	var err error
	if m.oob, err = meet(ctx, m.opt, m.u); err != nil {
		return err
	}
	defer m.oob.close()
	if m.opt.sockets {
		if err := m.oob.joined(ctx, m.opt.listen, m.u); err != nil {
			return err
		}
		return m.baseline(ctx)
	}
	if m.peers, err = m.oob.exchange(ctx, self, m.opt.peers, m.u); err != nil {
		return err
	}
	listeners := 0
	for _, p := range m.peers {
		if p.listen {
			listeners++
		}
	}
	switch listeners {
	case len(m.peers):
		return errors.New("cannot have all listeners")
	case 0:
		return errors.New("need at least 1 listener")
	}
	round, name, verb, others := m.clientRound, "Client", "Connect", listeners
	if m.opt.listen {
		round, name, verb, others = m.serverRound, "Server", "Accept", len(m.peers)-listeners
	}
	m.u.Printf("%s warmup\n", name)
	if err := m.round(ctx, others, round); err != nil {
		return err
	}
	n := m.opt.conns * others
	if m.opt.mimic {
		m.u.Printf("%s (%d) simulated QPs test (delay %d us)\n", verb, n, m.opt.delay.Microseconds())
		m.without(m.opt.delay)
	} else {
		m.u.Printf("%s (%d) QPs test\n", verb, n)
	}
	if err := m.timed(ctx, n, round); err != nil || len(m.peers) > 2 {
		return err
	}
	m.u.Printf("%s (%d) test - no QPs\n", verb, n)
	m.without(0)
	return m.timed(ctx, n, round)
}

// without makes the next rounds pause for delay instead of creating QPs.
func (m *mesh) without(delay time.Duration) {
	m.qps, m.delay = false, delay
	m.qpn.Store(m.opt.qpn)
}

// timed runs a round and prints its times.
func (m *mesh) timed(ctx context.Context, conns int, round func(context.Context, []*meshConn) error) error {
	if err := m.round(ctx, conns, round); err != nil {
		return err
	}
	printMeshTable(m.u, &m.totals, m.state.conns, m.opt.threads, m.qps)
	return nil
}

// round makes connections and ends them. All peers start together.
func (m *mesh) round(ctx context.Context, n int, round func(context.Context, []*meshConn) error) error {
	conns := make([]*meshConn, n)
	for i := range conns {
		conns[i] = new(meshConn)
	}
	m.totals = [numMeshSteps]span{}
	m.state.Do(func() {
		m.state.conns, m.state.came, m.state.left = conns, 0, 0
		m.state.done = [numMeshSteps]int{}
	})
	if err := m.oob.sync(0); err != nil {
		return err
	}
	err := round(ctx, conns)
	if err != nil {
		for _, c := range conns {
			if c.id != nil {
				c.id.Close()
			}
		}
	}
	return err
}

// fail ends the run. The first failure becomes the run's result.
func (m *mesh) fail(err error) {
	m.state.Do(func() {
		if m.state.failed == nil {
			m.state.failed = err
		}
	})
}

// step records that a connection has completed a step, or that err has ended the run.
func (m *mesh) step(s meshStep, err error) {
	if err != nil {
		m.fail(err)
		return
	}
	m.state.Do(func() { m.state.done[s]++ })
}

// await waits until n connections have completed a step.
func (m *mesh) await(ctx context.Context, s meshStep, n int) error {
	var failed error
	err := m.state.Until(ctx, func() bool {
		failed = m.state.failed
		return failed != nil || m.state.done[s] >= n
	})
	return errors.Join(failed, err)
}

// spread runs a step of every connection on the workers and waits for the end.
func (m *mesh) spread(ctx context.Context, s meshStep, conns []*meshConn, fn func(*meshConn)) error {
	m.totals[s].start()
	for _, c := range conns {
		select {
		case m.work <- func() { fn(c) }:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := m.await(ctx, s, len(conns))
	m.totals[s].stop()
	return err
}
