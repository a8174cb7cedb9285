// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// network connects the two sides of a test.
type network struct {
	// run starts a server, calls the client with a dialer and the address of the server, and stops the server. stop
	// also closes the listener.
	run func(t *testing.T, serve func(ln net.Listener) (stop func()), client func(d *stream.Dialer, address string))
	// check runs a function that transfers at least size bytes, and checks that RDMA carries them. The client calls it.
	check func(t *testing.T, size int64, run func())
	// apart makes servers run in a network namespace of their own. There they listen on TCP, because they do not support TLS
	// on Unix sockets, and the segments are not in the counters of the test. Without a namespace they listen on Unix sockets,
	// because other programs may use the ports.
	apart bool
}

// onFakes runs a test on fake devices of two kinds.
func onFakes(t *testing.T, test func(t *testing.T, n network)) {
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
	} {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(machine())
			test(t, network{
				run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
					lc := stream.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
					ln, err := lc.Listen(t.Context(), "tcp", "10.0.0.1:0")
					if err != nil {
						t.Fatalf("Listen: %v", err)
					}
					defer serve(ln)()
					client(&stream.Dialer{CM: cm.Dialer{Host: k.Host()}}, ln.Addr().String())
				},
				check: func(_ *testing.T, _ int64, run func()) { run() },
			})
		})
	}
}

// inVM is the network of the virtual machine. With rdmavm -vms it connects two of them.
var inVM = network{
	run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
		hosts := vmtest.Hosts(t, 2)
		vmtest.NoLeaks(t)
		vmtest.AnyMemory(t)
		d := stream.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
		sides := vmtest.Sides{
			Listen: func(ctx context.Context, address string) (net.Listener, error) {
				return stream.Listen(ctx, "tcp", address)
			},
			Dial:  func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
			Serve: serve,
			Call:  func(address string) { client(&d, address) },
		}
		sides.Run(t, hosts[0].IPv4)
	},
	check: func(t *testing.T, size int64, run func()) { vmtest.OverRDMA(t, size, run) },
	apart: true,
}
