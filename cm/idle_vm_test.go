// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
)

// held is the result of idleChild. heap is in bytes for each connection, and procs is
// GOMAXPROCS. fresh, dialed and parked are numbers of threads after ten connections, after all
// of them, and when goroutines wait on each of them. serving is the number of the server's
// threads.
type held struct{ heap, procs, fresh, dialed, parked, serving int }

// idleChild makes connections. Two goroutines wait on each, one for a completion and one for
// its end. It is a separate process, because the process of the tests records the place where
// each object was made.
func idleChild() int {
	h, err := idle(os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(h.heap, h.procs, h.fresh, h.dialed, h.parked)
	return 0
}

func idle(arg string) (h held, err error) {
	var from, to string
	var number, dialers int
	if _, err := fmt.Sscan(arg, &from, &to, &number, &dialers); err != nil {
		return h, err
	}
	// A probe of the keepalive allocates memory that the connection keeps, about 600 bytes.
	// Without it the result does not depend on the duration of the test.
	d := cm.Dialer{LocalAddr: mustParse(from + ":0"), KeepAlive: -1}
	ctx, cancel := context.WithCancel(context.Background()) // the test's own limit ends this process
	defer cancel()
	conns := make([]*cm.Conn, number)
	h.procs = runtime.GOMAXPROCS(0)
	for _, step := range []struct {
		from, to int
		note     func()
	}{
		{0, 10, func() { // the device is open, and the pools are filled
			h.heap = heap()
			h.fresh, err = vmtest.Threads()
		}},
		{10, number, func() {
			h.heap = (heap() - h.heap) / (number - 10)
			h.dialed, err = vmtest.Threads()
		}},
	} {
		if err := dialAll(ctx, &d, to, conns[step.from:step.to], dialers); err != nil {
			return h, err
		}
		if step.note(); err != nil {
			return h, err
		}
	}
	ended := make(chan error)
	for _, conn := range conns {
		go func() {
			_, err := conn.WaitRecv(ctx)
			ended <- fmt.Errorf("WaitRecv: %w", err)
		}()
		go func() {
			_, err := conn.Wait(ctx)
			ended <- fmt.Errorf("Wait: %w", err)
		}()
	}
	select {
	case err := <-ended:
		return h, err
	case <-time.After(time.Second):
	}
	if h.parked, err = vmtest.Threads(); err != nil {
		return h, err
	}
	// All goroutines have waited.
	cancel()
	for range 2 * number {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return h, err
		}
	}
	return h, nil
}

// dialAll fills conns with the given number of dialers at a time.
func dialAll(ctx context.Context, d *cm.Dialer, to string, conns []*cm.Conn, dialers int) error {
	var wg sync.WaitGroup
	errs := make([]error, dialers)
	for i := range dialers {
		wg.Go(func() {
			for at := i; at < len(conns) && errs[i] == nil; at += dialers {
				conns[at], errs[i] = d.Dial(ctx, "tcp", to)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func heap() int {
	runtime.GC()
	runtime.GC() // frees the objects that finalizers release
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// hold starts a child that holds idle connections to another child.
func hold(t *testing.T, conns, dialers int) (h held) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	server, addr := spawn(t, "echo", at(hosts[0].IPv4, 0))
	start := time.Now()
	client, said := spawn(t, "idle", fmt.Sprintln(hosts[1].IPv4, addr, conns, dialers))
	if _, err := fmt.Sscan(said, &h.heap, &h.procs, &h.fresh, &h.dialed, &h.parked); err != nil {
		t.Fatalf("output of the child = %q, want five numbers", said)
	}
	var err error
	if h.serving, err = vmtest.ThreadsOf(server.Process.Pid); err != nil {
		t.Fatalf("vmtest.ThreadsOf: %v", err)
	}
	for _, child := range []*exec.Cmd{client, server} {
		child.Process.Kill()
		child.Wait()
	}
	t.Logf("%d connections, %d dialers at once, %v: %d bytes of heap for each, threads: %d after 10, %d after all, %d with all waiting, %d of the server, GOMAXPROCS %d",
		conns, dialers, time.Since(start).Round(time.Millisecond), h.heap, h.fresh, h.dialed, h.parked, h.serving, h.procs)
	return h
}

// TestIdleConnections makes 250 connections, or a thousand in the long tests, with two waiting
// goroutines each. A connection without a keepalive uses at most 8 KiB of heap, on siw 9 KiB,
// on mlx5, erdma and bnxt_re 20 KiB, and on bnxt_re-p7 48 KiB. It uses no thread, even if many connections are made at once.
func TestIdleConnections(t *testing.T) {
	limit := 8 << 10
	switch vmtest.Driver() {
	case "siw":
		limit = 9 << 10 // it maps the two queues of a QP and each CQ separately
	case "mlx5", "erdma", "bnxt_re":
		limit = 20 << 10 // they keep an entry for each request that fits, erdma for each of its blocks
		if vmtest.P7() {
			limit = 48 << 10 // it keeps one for each of 1280 slots, because completions count requests modulo the slots
		}
	}
	conns, dialers := 250, 64
	if longtest.Enabled() {
		conns = 1000
	}
	if vmtest.Driver() != "rxe" {
		dialers = 2 // each dialing goroutine occupies a thread there
	}
	h := hold(t, conns, dialers)
	if h.heap > limit {
		t.Errorf("heap of a connection = %d bytes, want at most %d", h.heap, limit)
	}
	if h.parked > h.dialed+2 {
		t.Errorf("threads with %d waiting goroutines = %d, want at most %d", 2*conns, h.parked, h.dialed+2)
	}
	// The runtime has the threads that run Go code, and a few of its own.
	if most := h.procs + 8; h.parked > most {
		t.Errorf("threads with %d idle connections = %d, want at most %d", conns, h.parked, most)
	}
	if most := h.procs + 8; vmtest.Driver() == "rxe" && h.serving > most {
		t.Errorf("threads of the server with %d idle connections = %d, want at most %d", conns, h.serving, most)
	}
}
