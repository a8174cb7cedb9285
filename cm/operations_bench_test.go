// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// BenchmarkConnRead reads the peer's memory with some goroutines on one connection, without and
// with a delay of a millisecond in each direction:
//
//	go test -c -o cm.test ./cm
//	bin/rdmavm -append tsc=reliable -modules sch_netem -hosts 2 -- ./cm.test -test.run '^$' -test.bench ConnRead
func BenchmarkConnRead(b *testing.B) {
	hosts := vmtest.Hosts(b, 2)
	for _, delay := range []time.Duration{0, time.Millisecond} {
		for _, size := range []int{64, 4096} {
			for _, goroutines := range []int{1, 16, 100} {
				b.Run(fmt.Sprintf("delay=%v/size=%d/goroutines=%d", delay, size, goroutines), func(b *testing.B) {
					if delay > 0 {
						for _, h := range hosts {
							h.Delay(b, delay)
						}
					}
					conn, mine, theirs := readable(b, hosts, goroutines*size)
					readAtOnce(b, conn, mine, theirs, goroutines, size)
				})
			}
		}
	}
}

// readable returns a connection, and memory of both sides that READs may use.
func readable(b *testing.B, hosts []vmtest.Host, bytes int) (*cm.Conn, *verbs.MR, verbs.RemoteMemory) {
	b.Helper()
	ctx := b.Context()
	ln, err := cm.Listen(ctx, "tcp", at(hosts[0].IPv4, 0))
	if err != nil {
		b.Fatalf("Listen: %v", err)
	}
	b.Cleanup(func() { ln.Close() })
	offers := make(chan verbs.RemoteMemory, 1)
	go func() {
		defer close(offers)
		req, err := ln.Accept(ctx)
		if err != nil {
			b.Errorf("Listener.Accept: %v", err)
			return
		}
		defer req.Close()
		mr, err := req.Alloc(bytes, verbs.LocalWrite|verbs.RemoteRead)
		if err != nil {
			b.Errorf("Alloc: %v", err)
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		if err != nil {
			b.Errorf("Request.Accept: %v", err)
			return
		}
		b.Cleanup(func() { conn.Close() })
		offers <- mr.Remote()
	}()
	conn, err := dialerOf(hosts[1].IPv4).Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		b.Fatalf("Dial: %v", err)
	}
	b.Cleanup(func() { conn.Close() })
	mine, err := conn.Alloc(bytes, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		b.Fatalf("Alloc: %v", err)
	}
	theirs, ok := <-offers
	if !ok {
		b.FailNow()
	}
	return conn, mine, theirs
}

// readAtOnce does b.N READs with some goroutines.
func readAtOnce(b *testing.B, conn *cm.Conn, mine *verbs.MR, theirs verbs.RemoteMemory, goroutines, size int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		local, remote := mine.Slice(g*size, size), theirs.Slice(g*size, size)
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := conn.Read(context.Background(), local, remote); err != nil {
					b.Errorf("Read: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}
