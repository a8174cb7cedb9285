// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestVMStats compares the counts of the library with the kernel's. rxe counts SENDs and receives
// itself. The network interface counts the bytes of rxe and siw, with their headers. Neither counts the
// traffic of the software ConnectX.
func TestVMStats(t *testing.T) {
	rt := vmWire(t)
	const sends, size = 64, 4096
	l, r := rt.pair(t, verbs.QPCap{SendWR: sends, RecvWR: sends})
	for i := range uint64(sends) {
		r.recv(t, verbs.RecvWR{ID: i, SGList: []verbs.SGE{r.buf.Slice(0, size)}})
	}
	// The kernel reads the counters of a port again only after an interval (hw_counters/lifespan), 10 ms for rxe.
	const lifespan = 100 * time.Millisecond
	portOf := func(e *end) map[string]uint64 {
		t.Helper()
		time.Sleep(lifespan)
		c, err := e.qp.Device().PortCounters(1)
		if err != nil {
			t.Fatalf("Device.PortCounters: %v", err)
		}
		return c
	}
	beforeL, beforeR, beforeBytes := portOf(l), portOf(r), transmitted(t, rt.a.Interface)
	for i := range uint64(sends) {
		l.send(t, verbs.SendWR{ID: i, Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, size)}, Flags: verbs.SendSignaled})
	}
	l.ok(t, sends)
	r.ok(t, sends)
	afterL, afterR, bytes := portOf(l), portOf(r), transmitted(t, rt.a.Interface)-beforeBytes

	want := verbs.Count{Operations: sends, Bytes: sends * size}
	sent, received := l.qp.Stats().Sends[verbs.OpSend], r.cq.Stats().Received
	if sent != want || received != want {
		t.Errorf("QP.Stats = %+v sent, CQ.Stats = %+v received, want %+v", sent, received, want)
	}
	driver, _, _ := strings.Cut(rt.a.Device, "_")
	t.Logf("counters of %s: %v, %d bytes transmitted", rt.a.Device, afterL, bytes)
	switch strings.TrimRight(driver, "0123456789") {
	case "rxe":
		if n := afterL["rdma_sends"] - beforeL["rdma_sends"]; n != sent.Operations {
			t.Errorf("rdma_sends of the kernel = %d more, want %d, as QP.Stats", n, sent.Operations)
		}
		if n := afterR["rdma_recvs"] - beforeR["rdma_recvs"]; n != received.Operations {
			t.Errorf("rdma_recvs of the kernel = %d more, want %d, as CQ.Stats", n, received.Operations)
		}
		fallthrough
	case "siw":
		// A packet has up to 1024 bytes of data here, and less than 100 bytes of headers.
		if bytes < sent.Bytes || bytes > sent.Bytes*5/4 {
			t.Errorf("bytes of the interface = %d more, want from %d to %d", bytes, sent.Bytes, sent.Bytes*5/4)
		}
	}
}

// transmitted returns the number of bytes that a network interface has transmitted.
func transmitted(t *testing.T, name string) uint64 {
	t.Helper()
	text, err := os.ReadFile("/sys/class/net/" + name + "/statistics/tx_bytes")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatalf("strconv.ParseUint: %v", err)
	}
	return n
}
