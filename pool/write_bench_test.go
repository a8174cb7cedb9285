// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/pool"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// BenchmarkWrite compares ways to send ordinary Go memory, on a fake device or, in the virtual machine,
// on a real one.
//
//   - copy copies it into a Buf.
//   - register pins and registers it for each request.
//   - borrow is Pool.Borrow.
//   - registered has registered it before, which is the best that a cache can do.
func BenchmarkWrite(b *testing.B) {
	var a, peer *cm.Conn
	if vmtest.Inside() {
		hosts := vmtest.Hosts(b, 2)
		vmtest.AnyMemory(b)
		a, peer = connect(b, b.Context(), nil, hosts[1].IPv4, hosts[0].IPv4, verbs.QPConfig{})
	} else {
		k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
		a, peer = connect(b, b.Context(), k.Host(), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), verbs.QPConfig{})
	}
	p := newPool(b, a.PD(), pool.Config{}, false)
	theirs, err := peer.PD().Alloc(4<<20, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		b.Fatalf("peer.PD().Alloc: %v", err)
	}
	closer(b, theirs)
	ctx := context.Background()
	for n := 1 << 10; n <= 4<<20; n *= 4 {
		msg := make([]byte, n)
		clear(msg)
		remote := theirs.Remote().Slice(0, n)
		mr, err := a.PD().RegMR(msg, 0)
		if err != nil {
			b.Fatalf("a.PD().RegMR: %v", err)
		}
		write := func(b *testing.B, s verbs.SGE) {
			if err := a.Write(ctx, s, remote); err != nil {
				b.Fatalf("a.Write: %v", err)
			}
		}
		b.Run(fmt.Sprintf("%d/registered", n), func(b *testing.B) {
			for b.Loop() {
				write(b, mr.SGE())
			}
		})
		b.Run(fmt.Sprintf("%d/copy", n), func(b *testing.B) {
			for b.Loop() {
				buf, err := p.Get(ctx, n)
				if err != nil {
					b.Fatalf("p.Get: %v", err)
				}
				copy(buf.Bytes(), msg)
				write(b, buf.SGE())
				buf.Free()
			}
		})
		b.Run(fmt.Sprintf("%d/borrow", n), func(b *testing.B) {
			for b.Loop() {
				buf, err := p.Borrow(ctx, msg)
				if err != nil {
					b.Fatalf("p.Borrow: %v", err)
				}
				write(b, buf.SGE())
				buf.Free()
			}
		})
		b.Run(fmt.Sprintf("%d/register", n), func(b *testing.B) {
			for b.Loop() {
				mr, err := a.PD().RegMR(msg, 0)
				if err != nil {
					b.Fatalf("a.PD().RegMR: %v", err)
				}
				write(b, mr.SGE())
				if err := mr.Close(); err != nil {
					b.Fatalf("mr.Close: %v", err)
				}
			}
		})
		if err := mr.Close(); err != nil {
			b.Fatalf("mr.Close: %v", err)
		}
	}
}
