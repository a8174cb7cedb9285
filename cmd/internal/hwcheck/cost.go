// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// checkCosts measures how long frequent calls take.
func checkCosts(t *trial) {
	l := t.link(Config{Cap: verbs.QPCap{SendWR: 128, Inline: 64}})
	l.sendCQ.SetSpin(0)
	inline := verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, InlineData: pattern(1, min(8, l.qp.Cap().Inline)), RemoteAddr: l.memory.Addr, RKey: l.memory.RKey}
	plain := signaled(l.write(piece{0, 4096}, 0))
	for what, wr := range map[string]verbs.SendWR{"inline WRITE of 8 bytes": inline, "WRITE of 4096 bytes": plain} {
		for _, list := range []int{1, 16} {
			t.costOfPost(l, what, wr, list)
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
