// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/pool"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// modes runs a test with and without debug mode.
func modes(t *testing.T, f func(t *testing.T, debug bool)) {
	for name, debug := range map[string]bool{"plain": false, "debug": true} {
		t.Run(name, func(t *testing.T) { f(t, debug) })
	}
}

// Names of commands for cmtest.Kernel.OnCommand.
const (
	register   = "IB_USER_VERBS_CMD_REG_MR"
	deregister = "UVERBS_METHOD_MR_DESTROY"
)

// newPD returns a PD of a fake device, which must have no objects when the test has ended.
func newPD(t testing.TB) (*cmtest.Kernel, *verbs.PD) {
	t.Helper()
	k := cmtest.New(uverbstest.New("rxe0"))
	t.Cleanup(func() {
		if left := k.Left(); len(left) > 0 {
			t.Errorf("Left() = %q, want nothing", left)
		}
	})
	return k, openPD(t, k.Host(), "rxe0")
}

func openPD(t testing.TB, h *verbs.Host, device string) *verbs.PD {
	t.Helper()
	dev, err := h.Open(device)
	if err != nil {
		t.Fatalf("h.Open: %v", err)
	}
	closer(t, dev)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("dev.AllocPD: %v", err)
	}
	closer(t, pd)
	return pd
}

func closer(t testing.TB, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func newPool(t testing.TB, pd *verbs.PD, cfg pool.Config, debug bool) *pool.Pool {
	t.Helper()
	p, err := pool.NewMode(pd, cfg, debug)
	if err != nil {
		t.Fatalf("pool.NewMode: %v", err)
	}
	closer(t, p)
	return p
}

// deadline bounds every wait of a test.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func get(t testing.TB, p *pool.Pool, n int) *pool.Buf {
	t.Helper()
	b, err := p.Get(deadline(t), n)
	if err != nil {
		t.Fatalf("Get(%d) = %v", n, err)
	}
	return b
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}

// waiting waits until n calls of Get wait.
func waiting(t testing.TB, p *pool.Pool, n int) {
	t.Helper()
	eventually(t, "waiting Get", func() bool { return p.Stats().Waiting == n })
}

// result is the result of Get in another goroutine.
type result struct {
	b   *pool.Buf
	err error
}

// getLater calls Get in a goroutine, and waits until the call waits as the n-th.
func getLater(t testing.TB, ctx context.Context, p *pool.Pool, size, n int) <-chan result {
	t.Helper()
	c := make(chan result, 1)
	go func() {
		b, err := p.Get(ctx, size)
		c <- result{b, err}
	}()
	waiting(t, p, n)
	return c
}

// panics returns the text that f panics with.
func panics(t testing.TB, f func()) (text string) {
	t.Helper()
	defer func() {
		switch v := recover().(type) {
		case nil:
			t.Error("no panic")
		case error:
			text = v.Error()
		case string:
			text = v
		}
	}()
	f()
	return ""
}

func isRemoved(err error) bool {
	var e *verbs.DeviceRemovedError
	return errors.As(err, &e)
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// use returns the Stats of a pool without the counts.
func use(p *pool.Pool) pool.Stats {
	s := p.Stats()
	s.Gets, s.Waits, s.Registrations = 0, 0, 0
	return s
}
