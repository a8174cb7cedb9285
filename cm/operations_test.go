// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestConnOperationsAtOnce has many goroutines send, write and read on one connection at a time, more
// than fit the send queue and the depth of READs, each in its own memory. Every message arrives, and
// every READ returns the bytes of the goroutine's own WRITE.
func TestConnOperationsAtOnce(t *testing.T) {
	onAnyKernel(t, operationsAtOnce)
	onIWARP(t, operationsAtOnce)
}

// onAnyKernel runs a test on the kernel of the virtual machine, or else on each fake kernel. server
// and client are addresses of two devices.
func onAnyKernel(t *testing.T, test func(t *testing.T, host *verbs.Host, server, client netip.Addr)) {
	if vmtest.Inside() {
		hosts := vmtest.Hosts(t, 2)
		vmtest.NoLeaks(t)
		test(t, nil, hosts[0].IPv4, hosts[1].IPv4)
		return
	}
	onFakes(t, fakeMachines, test)
}

// onIWARP runs a test on the fake kernels with iWARP devices, which the tests of onAnyKernel do not need.
func onIWARP(t *testing.T, test func(t *testing.T, host *verbs.Host, server, client netip.Addr)) {
	if vmtest.Inside() {
		return
	}
	onFakes(t, map[string]func() uverbs.Kernel{
		"siw":   func() uverbs.Kernel { return uverbstest.NewSIW("siw0", "siw1") },
		"erdma": func() uverbs.Kernel { return uverbstest.NewERDMA("erdma_0", "erdma_1") },
	}, test)
}

func onFakes(t *testing.T, machines map[string]func() uverbs.Kernel, test func(t *testing.T, host *verbs.Host, server, client netip.Addr)) {
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(machine())
			test(t, k.Host(), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"))
			nothingLeft(t, k)
		})
	}
}

// connected is one connection and memory of its two sides.
type connected struct {
	*cm.Conn
	peer          *cm.Conn
	mine, theirs  *verbs.MR
	inbox         *verbs.MR // of the peer
	atomics       bool
	rounds, bytes int
}

func operationsAtOnce(t *testing.T, host *verbs.Host, server, client netip.Addr) {
	const goroutines, rounds, size = 24, 20, 256
	ctx := within(t, time.Minute)
	ln := listenOn(t, cm.ListenConfig{Host: host}, netip.AddrPortFrom(server, 0).String())
	defer ln.Close()
	r := ok((&cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8}}}).
		Resolve(ctx, "tcp", ln.Addr().String()))(t)
	defer r.Close()
	atomics := r.Device().Features().Atomics
	access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	if atomics {
		access |= verbs.RemoteAtomic
	}
	c := &connected{atomics: atomics, rounds: rounds, bytes: size}
	c.mine = ok(r.Alloc(goroutines*2*size, access))(t)
	accepted := acceptOne(ctx, t, ln, func(req *cm.Request) (_ *cm.ConnParam, err error) {
		if c.theirs, err = req.Alloc((goroutines+1)*size, access); err != nil {
			return nil, err
		}
		if c.inbox, err = req.Alloc(goroutines*8, verbs.LocalWrite); err != nil {
			return nil, err
		}
		for i := range goroutines {
			if err := req.PostRecv(uint64(i), c.inbox.Slice(8*i, 8)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	c.Conn = ok(r.Connect(ctx, nil, nil))(t)
	defer c.Close()
	c.peer = accepted()
	defer c.peer.Close()
	var all sync.WaitGroup
	var want, got uint64
	for g := range goroutines {
		want += uint64(g * g)
		all.Go(func() {
			if err := c.use(ctx, g); err != nil {
				t.Errorf("goroutine %d: %v", g, err)
			}
		})
	}
	for range goroutines {
		wc, err := c.peer.WaitRecv(ctx)
		if err != nil {
			t.Errorf("WaitRecv() = %v", err)
			break
		}
		got += binary.LittleEndian.Uint64(c.inbox.Bytes()[8*wc.ID:])
	}
	all.Wait()
	if got != want {
		t.Errorf("the sum of the messages is %d, want %d", got, want)
	}
	if n := binary.LittleEndian.Uint64(c.theirs.Bytes()[goroutines*size:]); atomics && !t.Failed() && n != goroutines*rounds {
		t.Errorf("the counter is %d, want %d", n, goroutines*rounds)
	}
}

// use runs the operations of one goroutine. The last one is a message with the square of its
// number.
func (c *connected) use(ctx context.Context, g int) error {
	size := c.bytes
	out, in := c.mine.Bytes()[2*g*size:][:size], c.mine.Bytes()[(2*g+1)*size:][:size]
	outSGE, inSGE := c.mine.Slice(2*g*size, size), c.mine.Slice((2*g+1)*size, size)
	all := c.theirs.Remote()
	theirs, counter := all.Slice(g*size, size), all.Slice(c.theirs.Len()-size, 8)
	for i := range c.rounds {
		for k := range out {
			out[k] = byte(g + i + k)
		}
		if err := c.Write(ctx, outSGE, theirs); err != nil {
			return fmt.Errorf("Write %d: %w", i, err)
		}
		if err := c.Read(ctx, inSGE, theirs); err != nil {
			return fmt.Errorf("Read %d: %w", i, err)
		}
		if string(in) != string(out) {
			return fmt.Errorf("Read %d returned other bytes than were written", i)
		}
		if c.atomics {
			if err := c.FetchAdd(ctx, c.mine.Slice((2*g+1)*size, 8), counter, 1); err != nil {
				return fmt.Errorf("FetchAdd %d: %w", i, err)
			}
		}
	}
	binary.LittleEndian.PutUint64(out, uint64(g*g))
	return c.Send(ctx, c.mine.Slice(2*g*size, 8))
}
