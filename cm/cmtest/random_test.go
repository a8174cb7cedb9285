// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestRandomUse runs clients and servers that connect, exchange messages, cancel and close at
// random. At the same time messages are lost or late, and devices are removed. Nothing hangs,
// and nothing is left open.
func TestRandomUse(t *testing.T) {
	names := []string{"rdma0", "rdma1", "rdma2", "rdma3"}
	rounds := 4
	if longtest.Enabled() {
		rounds = 300
	}
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New(names...) },
		"siw":  func() uverbs.Kernel { return uverbstest.NewSIW(names...) },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, names...) },
	} {
		t.Run(name, func(t *testing.T) {
			connected := int64(0)
			// On a busy machine no dial may succeed in a round.
			for seed := uint64(0); seed < uint64(rounds) || connected == 0 && seed < 100; seed++ {
				u := &randomUse{k: cmtest.New(machine()), names: names}
				before := restNow()
				u.run(seed)
				if left := expectNothing(u.k, before); len(left) > 0 {
					t.Fatalf("seed %d: left %q, want nothing\n%s", seed, left, stacks())
				}
				connected += u.connected.Load()
			}
			if connected == 0 {
				t.Error("connected = 0, want at least 1")
			}
			t.Logf("%d connections", connected)
		})
	}
}

// randomUse is one round of TestRandomUse.
type randomUse struct {
	k         *cmtest.Kernel
	names     []string
	connected atomic.Int64
	wg        sync.WaitGroup
}

func (u *randomUse) run(seed uint64) {
	var mu sync.Mutex
	network := rand.New(rand.NewPCG(seed, 1))
	u.k.OnMessage(func(cmtest.Message) (cmtest.Fate, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		switch network.IntN(10) {
		case 0:
			return cmtest.Lost, 0
		case 1, 2:
			return cmtest.Arrives, time.Duration(network.IntN(3000)) * time.Microsecond
		}
		return cmtest.Arrives, 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	hosts := []*verbs.Host{u.k.Host(), u.k.Host()}
	for i := range 2 {
		ln, err := (&cm.ListenConfig{Host: hosts[0]}).Listen(ctx, "tcp", fmt.Sprintf(":%d", 7000+i))
		if err != nil {
			continue
		}
		defer ln.Close()
		u.wg.Go(func() { u.listen(ctx, ln) })
	}
	for i := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2+i))
		u.wg.Go(func() {
			for ctx.Err() == nil {
				u.dial(ctx, hosts[r.IntN(2)], r)
			}
		})
	}
	u.wg.Go(func() {
		r := rand.New(rand.NewPCG(seed, 100))
		for range r.IntN(len(u.names)) {
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			if name := u.names[r.IntN(len(u.names))]; r.IntN(4) > 0 {
				u.k.Remove(name)
			} else {
				u.k.Unplug(name)
			}
		}
	})
	u.wg.Wait()
}

// listen accepts connections and echoes their messages.
func (u *randomUse) listen(ctx context.Context, ln *cm.Listener) {
	for ctx.Err() == nil {
		req, err := ln.Accept(ctx)
		if err != nil {
			time.Sleep(time.Millisecond) // the error may concern one request only, for example on a removed device
			continue
		}
		u.wg.Go(func() { echo(ctx, req, nil) })
	}
}

// shortly returns a context that may end at any time.
func shortly(ctx context.Context, r *rand.Rand) (context.Context, context.CancelFunc) {
	switch r.IntN(4) {
	case 0:
		return context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
	case 1:
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, cancel)
		return ctx, cancel
	}
	return context.WithTimeout(ctx, 100*time.Millisecond)
}

// dial connects, exchanges messages and closes at random.
func (u *randomUse) dial(ctx context.Context, host *verbs.Host, r *rand.Rand) {
	short, cancel := shortly(ctx, r)
	defer cancel()
	d := cm.Dialer{Host: host}
	conn, err := d.Dial(short, "tcp", fmt.Sprintf("10.0.0.%d:%d", 1+r.IntN(len(u.names)), 7000+r.IntN(3)))
	if err != nil {
		time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
		return
	}
	u.connected.Add(1)
	defer conn.Close()
	if r.IntN(3) == 0 {
		after := time.Duration(r.IntN(1000)) * time.Microsecond
		u.wg.Go(func() {
			time.Sleep(after)
			conn.Close()
		})
	}
	for range r.IntN(4) {
		short, cancel := shortly(ctx, r)
		call(short, conn, "hello")
		cancel()
	}
	if r.IntN(2) == 0 {
		conn.Disconnect(short)
	}
}
