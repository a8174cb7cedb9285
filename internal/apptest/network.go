// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apptest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// Network connects the two sides of a test that runs on fake kernels, in a virtual machine, and between two of them.
type Network struct {
	// Run starts a server, calls the client with a dialer and the address of the server, and stops the server. stop
	// also closes the listener.
	Run func(t *testing.T, serve func(ln net.Listener) (stop func()), client func(d *stream.Dialer, address string))
	// Check runs a function that transfers at least size bytes. In a virtual machine it checks that RDMA carries them. The
	// client calls it.
	Check func(t *testing.T, size int64, run func())
	// VM is set for the network of InVM.
	VM bool
}

// OnFakes runs a test on fake kernels with different drivers. Both sides have the options.
func OnFakes(t *testing.T, opts stream.Options, test func(t *testing.T, n Network)) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		test(t, Network{
			Run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
				lc := stream.ListenConfig{Options: opts, CM: cm.ListenConfig{Host: k.Host()}}
				ln, err := lc.Listen(t.Context(), "tcp", "10.0.0.1:0")
				if err != nil {
					t.Fatalf("Listen: %v", err)
				}
				defer serve(ln)()
				client(&stream.Dialer{Options: opts, CM: cm.Dialer{Host: k.Host()}}, ln.Addr().String())
			},
			Check: func(_ *testing.T, _ int64, run func()) { run() },
		})
	})
}

// InVM returns the network of the virtual machine. With rdmavm -vms it connects two of them. Both sides have the options.
func InVM(opts stream.Options) Network {
	return Network{
		Run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
			hosts := vmtest.Hosts(t, 2)
			vmtest.NoLeaks(t)
			vmtest.AnyMemory(t)
			lc := stream.ListenConfig{Options: opts}
			d := stream.Dialer{Options: opts, CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
			sides := vmtest.Sides{
				Listen: func(ctx context.Context, address string) (net.Listener, error) { return lc.Listen(ctx, "tcp", address) },
				Dial:   func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
				Serve:  serve,
				Call:   func(address string) { client(&d, address) },
			}
			sides.Run(t, hosts[0].IPv4)
		},
		Check: func(t *testing.T, size int64, run func()) { vmtest.OverRDMA(t, size, run) },
		VM:    true,
	}
}
