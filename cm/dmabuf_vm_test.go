// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestConnDMABuf sends messages between dma-bufs that were registered after the connection was
// established.
func TestConnDMABuf(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	cfg := verbs.QPConfig{NoScatterToCQE: true}
	ln := listenOn(t, cm.ListenConfig{QP: cfg}, at(hosts[0].IPv4, 0))
	d := dialerOf(hosts[1].IPv4)
	d.QP = cfg
	client, server := dialed(t, ln, d)
	const size = 16 << 10
	type end struct {
		*cm.Conn
		mr  *verbs.MR
		mem []byte
	}
	register := func(conn *cm.Conn) end {
		f, mem := vmtest.DMABuf(t, size)
		mr, err := conn.PD().RegDMABuf(int(f.Fd()), 0, size, 0, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		if err != nil {
			t.Fatalf("RegDMABuf: %v", err)
		}
		t.Cleanup(func() { mr.Close() })
		return end{conn, mr, mem}
	}
	a, b := register(client), register(server)
	ctx := within(t, time.Minute)
	seed := byte(0)
	message := func(from, to end, n int) {
		t.Helper()
		seed++
		want := bytes.Repeat([]byte{seed}, n)
		copy(from.mem, want)
		sink := to.mem[size/2:]
		clear(sink)
		if err := to.PostRecv(1, to.mr.Slice(size/2, 4096)); err != nil {
			t.Fatalf("to.PostRecv: %v", err)
		}
		if err := from.Send(ctx, from.mr.Slice(0, n)); err != nil {
			t.Fatalf("from.Send: %v", err)
		}
		wc, err := to.WaitRecv(ctx)
		if err != nil {
			t.Fatalf("to.WaitRecv: %v", err)
		}
		if int(wc.ByteLen) != n || !bytes.Equal(sink[:n], want) || sink[n] != 0 {
			t.Fatalf("message of %d bytes %#x arrived as %d bytes % x", n, seed, wc.ByteLen, sink[:min(n+1, 40)])
		}
		if err := from.Read(ctx, from.mr.Slice(size/2, n), to.mr.Remote().Slice(size/2, n)); err != nil {
			t.Fatalf("from.Read: %v", err)
		}
		if !bytes.Equal(from.mem[size/2:][:n], want) {
			t.Fatalf("Read of %d bytes %#x = % x", n, seed, from.mem[size/2:][:min(n, 40)])
		}
	}
	for _, n := range []int{1, 16, 31, 32, 33, 63, 64, 65, 1000, 4095, 4096} {
		message(a, b, n)
		message(b, a, n)
	}
}
