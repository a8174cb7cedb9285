// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"io"
	"testing"
	"time"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// BenchmarkPingPong exchanges messages of 64 bytes between two streams that poll, on a fake device that
// completes requests as they are posted. One goroutine uses both streams, and never waits. So a message takes
// only the time of the user code on both sides and of the fake device.
func BenchmarkPingPong(b *testing.B) {
	k := streamconntest.RXE(b)
	o := stream.Options{Spin: time.Second}
	client, server := pair(b, k, ends{dial: o, listen: o})
	buf := make([]byte, 64)
	hop := func(from, to *stream.Conn) {
		if _, err := from.Write(buf); err != nil {
			b.Fatalf("Write: %v", err)
		}
		if _, err := io.ReadFull(to, buf); err != nil {
			b.Fatalf("Read: %v", err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		hop(client, server)
		hop(server, client)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/message")
}

// BenchmarkSleepingPingPong exchanges messages of 64 bytes between two goroutines that sleep, on software
// ConnectXs in this process. It reports how often an event wakes a goroutine for each message.
func BenchmarkSleepingPingPong(b *testing.B) {
	k := streamconntest.MLX5(b)
	o := stream.Options{Spin: -1}
	client, server := pair(b, k, ends{dial: o, listen: o})
	go io.Copy(server, streamconntest.OnlyReader(server))
	buf := make([]byte, 64)
	wakeups := func() uint64 {
		return client.Stats().Conn.RecvCQ.Wakeups + server.Stats().Conn.RecvCQ.Wakeups
	}
	before := wakeups()
	for b.Loop() {
		if _, err := client.Write(buf); err != nil {
			b.Fatalf("Write: %v", err)
		}
		if _, err := io.ReadFull(client, buf); err != nil {
			b.Fatalf("ReadFull: %v", err)
		}
	}
	b.ReportMetric(float64(wakeups()-before)/float64(b.N)/2, "wakeups/message")
}
