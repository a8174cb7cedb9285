// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestWaitsNeedNoThreads checks that a goroutine that sleeps until a completion needs no
// thread and no other goroutine. This applies to a CQ with one waiter and to a CQ with several.
func TestWaitsNeedNoThreads(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		const queues, each = 25, 4
		dev := openDevice(t, rt.h, rt.a.Device)
		var cqs []*verbs.CQ
		for range queues {
			cq := createCQ(t, dev, verbs.CQConfig{})
			cq.SetSpin(0)
			cqs = append(cqs, cq)
		}
		goroutines, threads := runtime.NumGoroutine(), countThreads(t)
		ended := make(chan error)
		for i := range queues * each {
			go func() {
				_, err := cqs[i%queues].Wait(context.Background(), make([]verbs.WC, 1))
				ended <- err
			}()
		}
		time.Sleep(200 * time.Millisecond)
		select {
		case err := <-ended:
			t.Fatalf("Wait returned before any completion: %v", err)
		default:
		}
		goroutines, threads = runtime.NumGoroutine()-goroutines, countThreads(t)-threads
		t.Logf("%d waits: %d goroutines, %d threads", queues*each, goroutines, threads)
		// Some threads are the runtime's own, and some goroutines belong to earlier tests.
		if goroutines > queues*each+5 || threads > queues/2 {
			t.Errorf("%d waits use %d goroutines and %d threads, want one goroutine each and few threads", queues*each, goroutines, threads)
		}
		for _, cq := range cqs {
			if err := cq.Close(); err != nil {
				t.Errorf("CQ.Close: %v", err)
			}
		}
		for range queues * each {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait on a closed CQ = %v, want net.ErrClosed", err)
			}
		}
	})
}

func countThreads(t *testing.T) int {
	t.Helper()
	n, err := vmtest.Threads()
	if err != nil {
		t.Fatalf("vmtest.Threads: %v", err)
	}
	return n
}
