// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// checkCosts measures how long frequent calls take.
func checkCosts(t *trial) {
	t.nearDevice()
	l := t.link(Config{Cap: verbs.QPCap{SendWR: 128, Inline: 64}})
	l.sendCQ.SetSpin(0)
	inline := verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, InlineData: pattern(1, min(8, l.qp.Cap().Inline)), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey}
	plain := signaled(l.write(piece{0, 4096}, 0))
	for what, wr := range map[string]verbs.SendWR{"inline WRITE of 8 bytes": inline, "WRITE of 4096 bytes": plain} {
		for _, list := range []int{1, 16} {
			t.costOfPost(l, what, wr, list)
		}
	}
	for _, pollers := range []int{1, 2, 4} {
		t.costOfReceives("", Config{}, pollers)
	}
	if needsConnectX(t) == "" {
		shared := l
		for range ringers * ringerQP {
			shared = l.another()
		}
		t.costOfPost(shared, "inline WRITE of 8 bytes by a shared register", inline, 1)
		const wide = "completions of 128 bytes"
		if cfg := (Config{Completions: mlx5dv.CQOptions{EntrySize: 128}}); t.hasOption(wide, cfg.Completions) {
			t.costOfReceives(", "+wide, cfg, 1)
		}
	}
	page := func(size int) func() error {
		return func() error {
			mr, err := l.pd.Alloc(size, rights(t.dev))
			if err != nil {
				return err
			}
			return mr.Close()
		}
	}
	t.cost("register and close 4 KiB", 100, page(4<<10))
	t.cost("register and close 1 MiB", 30, page(1<<20))
	t.cost("create and close a QP", 50, func() error {
		qp, err := l.newQP()
		if err != nil {
			return err
		}
		return qp.Close()
	})
	if needsManager(t) != "" {
		return
	}
	lc := cm.ListenConfig{Host: t.target.Host}
	ln, err := lc.Listen(t.ctx, "tcp", t.anyPort())
	t.must("listen", err)
	t.later(ln.Close)
	d := t.dialer()
	t.cost("connect, exchange a message and disconnect", 20, func() error {
		t.both(func(ctx context.Context) error { return echoOne(ctx, ln) }, func(ctx context.Context) error {
			return exchangeOne(ctx, &d, ln.Addr().String(), 1)
		})
		return nil
	})
}

// cost measures the mean time of a call.
func (t *trial) cost(what string, n int, call func() error) {
	began := time.Now()
	for range n {
		t.must(what, call())
	}
	t.note("%s: %v", what, time.Since(began)/time.Duration(n))
}

// costOfPost measures the mean time of a request in a post, and of its completion in a poll that finds it.
func (t *trial) costOfPost(l *link, what string, wr verbs.SendWR, list int) {
	const total = 4096
	wrs := make([]verbs.SendWR, list)
	for i := range wrs {
		wrs[i] = wr
	}
	var posting, polling time.Duration
	polled := 0
	var wcs [64]verbs.WC
	for range total / 64 {
		began := time.Now()
		for range 64 / list {
			l.post(wrs...)
		}
		posting += time.Since(began)
		for got := 0; got < 64; {
			began := time.Now()
			n, err := l.sendCQ.Poll(wcs[got:])
			took := time.Since(began)
			t.must("poll", err)
			if n == 0 {
				k, err := waitSome(t.ctx, l.sendCQ, wcs[got:])
				t.must("wait", err)
				got += k
				continue
			}
			polling += took
			got += n
			polled += n
		}
		l.succeeded(what, wcs[:])
	}
	t.note("%s, lists of %d: post %v each", what, list, posting/total)
	if polled > total/2 {
		t.note("%s, lists of %d: poll %v each", what, list, polling/time.Duration(polled))
	}
}

// Sizes of costOfReceives.
const (
	costMessage = 16 // bytes, which a completion of a ConnectX can hold
	costBatch   = 64
)

// costOfReceives measures the mean time of a short receive in a poll that finds it, while some goroutines poll CQs of their own. what
// describes the configuration.
func (t *trial) costOfReceives(what string, cfg Config, pollers int) {
	if iwarp(t.dev) {
		return // a QP cannot be connected without the connection manager
	}
	type result struct {
		took time.Duration
		n    int
		err  error
	}
	results := make(chan result, pollers)
	for range pollers {
		from, to := t.connected(cfg)
		go func() {
			took, n, err := timeReceives(t.ctx, from, to)
			results <- result{took, n, err}
		}()
	}
	var took time.Duration
	var errs []error
	n := 0
	for range pollers {
		r := <-results
		took += r.took
		n += r.n
		errs = append(errs, r.err)
	}
	t.must("receive", errors.Join(errs...))
	if n > 0 {
		t.note("receive of %d bytes%s, %d pollers: poll %v each", costMessage, what, pollers, took/time.Duration(n))
	}
}

// connected returns two connected ends on the target's device.
func (t *trial) connected(cfg Config) (from, to *end) {
	from, to = t.localWith(cfg), t.localWith(cfg)
	mtu, err := from.portMTU()
	t.must("query the port", err)
	t.must("connect", from.join(to.own, mtu))
	t.must("connect", to.join(from.own, mtu))
	return from, to
}

// timeReceives sends batches of messages. It returns the time of the polls that found any, and the number of messages that
// these polls found.
func timeReceives(ctx context.Context, from, to *end) (took time.Duration, found int, err error) {
	recvs, sends := make([]verbs.RecvWR, costBatch), make([]verbs.SendWR, costBatch)
	for i := range costBatch {
		recvs[i].SGList = to.elements([]piece{{i * costMessage, costMessage}})
		sends[i] = verbs.SendWR{Opcode: verbs.OpSend, SGList: from.elements([]piece{{i * costMessage, costMessage}})}
	}
	sends[costBatch-1] = signaled(sends[costBatch-1])
	var wcs [costBatch]verbs.WC
	for range 64 {
		if _, err := to.qp.PostRecv(recvs); err != nil {
			return 0, 0, err
		}
		if _, err := from.qp.PostSend(sends); err != nil {
			return 0, 0, err
		}
		if _, err := wait(ctx, from.sendCQ, 1); err != nil { // all messages have arrived
			return 0, 0, err
		}
		for got := 0; got < costBatch; {
			began := time.Now()
			n, err := to.recvCQ.Poll(wcs[got:])
			passed := time.Since(began)
			if err == nil && n == 0 {
				n, err = waitSome(ctx, to.recvCQ, wcs[got:])
				passed, found = 0, found-n
			}
			if err != nil {
				return 0, 0, err
			}
			if n > 0 {
				took += passed
			}
			got, found = got+n, found+n
		}
		for i := range wcs {
			if err := wcs[i].Err(); err != nil {
				return 0, 0, fmt.Errorf("message %d: %w", i, err)
			}
		}
	}
	return took, found, nil
}
