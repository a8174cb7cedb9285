// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"purerdma/cm"
	"purerdma/internal/mem"
	"purerdma/internal/vmtest"
	"purerdma/pool"
	"purerdma/verbs"
)

// end is one end of a connection with a pool on the connection's PD.
type end struct {
	*cm.Conn
	*pool.Pool
}

// connect returns both ends of a connection between two addresses. host is nil in the virtual machine.
func connect(t testing.TB, ctx context.Context, host *verbs.Host, local, remote netip.Addr, qp verbs.QPConfig) (client, server *cm.Conn) {
	t.Helper()
	ln, err := (&cm.ListenConfig{Host: host, QP: qp}).Listen(ctx, "tcp", netip.AddrPortFrom(remote, 0).String())
	if err != nil {
		t.Fatalf("cm.ListenConfig.Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(ctx)
		if err != nil {
			t.Errorf("ln.Accept: %v", err)
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		if err != nil {
			t.Errorf("req.Accept: %v", err)
			return
		}
		accepted <- conn
	}()
	d := &cm.Dialer{Host: host, QP: qp, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(local, 0))}
	if client, err = d.Dial(ctx, "tcp", ln.Addr().String()); err != nil {
		t.Fatalf("d.Dial: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	if server = <-accepted; server == nil {
		t.FailNow()
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// TestVMSend sends messages of all sizes from Bufs of a pool into Bufs of another one. The pools
// have little memory, so that they use all of it over and over.
func TestVMSend(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.AnyMemory(t)
	modes(t, func(t *testing.T, debug bool) {
		vmtest.NoLeaks(t)
		ctx := deadline(t)
		a, b := connect(t, ctx, nil, hosts[1].IPv4, hosts[0].IPv4, verbs.QPConfig{})
		cfg := pool.Config{SlabSize: 64 << 10, MaxBytes: 192 << 10}
		client, server := end{a, newPool(t, a.PD(), cfg, debug)}, end{b, newPool(t, b.PD(), cfg, debug)}
		r := rand.New(rand.NewPCG(3, 4))
		for i := range 500 {
			n := randomSize(r, 100<<10)
			message(t, ctx, client, server, n, byte(i+1))
			message(t, ctx, server, client, n, byte(i+101))
		}
	})
}

// message sends one message.
func message(t *testing.T, ctx context.Context, from, to end, n int, fill byte) {
	t.Helper()
	in, err := to.Get(ctx, n)
	if err != nil {
		t.Fatalf("to.Get: %v", err)
	}
	defer in.Free()
	clear(in.Bytes())
	if err := to.PostRecv(uint64(n), in.Ref().SGE()); err != nil {
		t.Fatalf("to.PostRecv: %v", err)
	}
	out, err := from.Get(ctx, n)
	if err != nil {
		t.Fatalf("from.Get: %v", err)
	}
	copy(out.Bytes(), bytes.Repeat([]byte{fill}, n))
	if err := from.Send(ctx, out.SGE()); err != nil {
		t.Fatalf("Send of %d bytes = %v", n, err)
	}
	out.Free()
	wc, err := to.WaitRecv(ctx)
	if err != nil {
		t.Fatalf("to.WaitRecv: %v", err)
	}
	in.Free() // the reference of the receive
	if wc.ByteLen != uint32(n) || bytes.Count(in.Bytes(), []byte{fill}) != n {
		t.Fatalf("received %d bytes, want %d of %#x", wc.ByteLen, n, fill)
	}
}

// TestVMRemote reads and writes the Bufs of a pool with remote rights.
func TestVMRemote(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.AnyMemory(t)
	vmtest.NoLeaks(t)
	ctx := deadline(t)
	a, b := connect(t, ctx, nil, hosts[1].IPv4, hosts[0].IPv4, verbs.QPConfig{})
	local := newPool(t, a.PD(), pool.Config{}, true)
	lent := newPool(t, b.PD(), pool.Config{Access: verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite}, true)
	for _, n := range []int{1, 100, 4096, 100_000, 3 << 20} {
		theirs, ours, back := get(t, lent, n), get(t, local, n), get(t, local, n)
		stamp(ours, uint64(n))
		if err := a.Write(ctx, ours.SGE(), theirs.Remote()); err != nil {
			t.Fatalf("Write of %d bytes = %v", n, err)
		}
		if err := a.Read(ctx, back.SGE(), theirs.Remote()); err != nil {
			t.Fatalf("Read of %d bytes = %v", n, err)
		}
		if !stamped(back, uint64(n)) {
			t.Errorf("the bytes of a READ of %d bytes are not those of the WRITE", n)
		}
		for _, b := range []*pool.Buf{theirs, ours, back} {
			b.Free()
		}
	}
}

// TestVMManySlabs uses pools from many goroutines on a real device.
func TestVMManySlabs(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	vmtest.AnyMemory(t)
	modes(t, func(t *testing.T, debug bool) {
		vmtest.NoLeaks(t)
		p := newPool(t, openPD(t, verbs.DefaultHost(), hosts[0].Device), pool.Config{SlabSize: 256 << 10, MaxBytes: 1 << 20}, debug)
		model := &claims{owner: map[uint64]*pool.Buf{}}
		ctx := t.Context()
		var wg sync.WaitGroup
		for user := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(7, uint64(user)))
				for i := range 200 {
					useOne(t, ctx, p, model, r, uint64(user*200+i+1), 1<<20)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.InUse != 0 || s.Registered > 1<<20 {
			t.Errorf("Stats() = %+v, want nothing in use and at most 1 MiB registered", s)
		}
	})
}

// TestVMHugePages registers slabs on huge pages where there are any, and on other pages without.
func TestVMHugePages(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	vmtest.AnyMemory(t)
	vmtest.NoLeaks(t)
	vmtest.SetHugePages(t, 2)
	size := mem.HugePage()
	p := newPool(t, openPD(t, verbs.DefaultHost(), hosts[0].Device), pool.Config{SlabSize: size, MaxBytes: 3 * size}, false)
	for i := range 3 {
		b := get(t, p, size)
		defer b.Free()
		stamp(b, 1)
		text, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if want := fmt.Sprintf("HugePages_Free: %8d\n", max(1-i, 0)); !strings.Contains(string(text), want) {
			t.Errorf("after slab %d /proc/meminfo lacks %q", i+1, want)
		}
	}
}

// TestVMNode compares the node of a device with the file of the kernel, if there is one.
func TestVMNode(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	const class = "/sys/class/infiniband"
	if _, err := os.Stat(filepath.Join(class, hosts[0].Device)); err != nil {
		t.Fatalf("os.Stat: %v", err)
	}
	if node := pool.NodeOf(class, hosts[0].Device); node < -1 || node > 0 {
		t.Errorf("%s is on node %d of a machine with one node", hosts[0].Device, node)
	}
}

// TestVMNoDMABuf has the kernel refuse a pool over a file that is no dma-buf.
func TestVMNoDMABuf(t *testing.T) {
	hosts := vmtest.Hosts(t, 1)
	vmtest.NoLeaks(t)
	pd := openPD(t, verbs.DefaultHost(), hosts[0].Device)
	p, err := pool.NewDMABuf(pd, -1, 0, 4096, pool.Config{})
	var op *verbs.OpError
	if p != nil || !errors.As(err, &op) {
		t.Errorf("NewDMABuf = %v, %v, want an OpError", p, err)
	}
}

// TestVMDMABuf sends messages between pools over dma-bufs, and compares the bytes by mappings of
// their own.
func TestVMDMABuf(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.AnyMemory(t)
	modes(t, func(t *testing.T, debug bool) {
		vmtest.NoLeaks(t)
		ctx := deadline(t)
		const offset, length = 8 << 10, 56 << 10 // no power of two
		a, b := connect(t, ctx, nil, hosts[1].IPv4, hosts[0].IPv4, verbs.QPConfig{NoScatterToCQE: true})
		type side struct {
			*cm.Conn
			*pool.Pool
			mem []byte
		}
		over := func(conn *cm.Conn) side {
			f, mem := vmtest.DMABuf(t, 64<<10)
			p, err := pool.NewDMABufMode(conn.PD(), int(f.Fd()), offset, length, pool.Config{}, debug)
			if err != nil {
				t.Fatalf("pool.NewDMABufMode: %v", err)
			}
			closer(t, p)
			return side{conn, p, mem}
		}
		client, server := over(a), over(b)
		for i, n := range []int{1, 64, 100, 4096, 5000, 32 << 10, 40 << 10, length} {
			in, out := get(t, server.Pool, n), get(t, client.Pool, n)
			if in.Bytes() != nil || in.Len() != n {
				t.Errorf("a Buf of a dma-buf: Len() = %d, Bytes() = %d bytes, want %d and none", in.Len(), len(in.Bytes()), n)
			}
			want := bytes.Repeat([]byte{byte(i + 1)}, n)
			copy(client.mem[out.SGE().Addr:], want)
			clear(server.mem)
			if err := server.PostRecv(1, in.Ref().SGE()); err != nil {
				t.Fatalf("server.PostRecv: %v", err)
			}
			if err := client.Send(ctx, out.SGE()); err != nil {
				t.Fatalf("Send of %d bytes = %v", n, err)
			}
			if _, err := server.WaitRecv(ctx); err != nil {
				t.Fatalf("server.WaitRecv: %v", err)
			}
			in.Free()
			at := in.SGE().Addr
			if !bytes.Equal(server.mem[at:at+uint64(n)], want) || bytes.Count(server.mem, want[:1]) != n {
				t.Errorf("the received %d bytes differ from the sent ones", n)
			}
			in.Free()
			out.Free()
		}
	})
}

// TestVMBorrow sends large memory of the Go heap without a copy.
func TestVMBorrow(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.AnyMemory(t)
	modes(t, func(t *testing.T, debug bool) {
		vmtest.NoLeaks(t)
		ctx := deadline(t)
		a, b := connect(t, ctx, nil, hosts[1].IPv4, hosts[0].IPv4, verbs.QPConfig{})
		client, server := end{a, newPool(t, a.PD(), pool.Config{MaxBytes: 2 << 20}, debug)}, end{b, newPool(t, b.PD(), pool.Config{}, debug)}
		memory := [][]byte{make([]byte, 300<<10), make([]byte, 1<<20), make([]byte, 1000), make([]byte, 1500<<10)}
		for i := range 20 {
			msg := memory[i%len(memory)]
			for j := range msg {
				msg[j] = byte(i*7 + j)
			}
			in := get(t, server.Pool, len(msg))
			if err := server.PostRecv(1, in.Ref().SGE()); err != nil {
				t.Fatalf("server.PostRecv: %v", err)
			}
			out := borrow(t, client.Pool, msg)
			if err := client.Send(ctx, out.SGE()); err != nil {
				t.Fatalf("Send of %d bytes = %v", len(msg), err)
			}
			out.Free()
			if _, err := server.WaitRecv(ctx); err != nil {
				t.Fatalf("server.WaitRecv: %v", err)
			}
			in.Free()
			if !bytes.Equal(in.Bytes(), msg) {
				t.Errorf("message %d of %d bytes differs from the sent one", i, len(msg))
			}
			in.Free()
		}
	})
}
