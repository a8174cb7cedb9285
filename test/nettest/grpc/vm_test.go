// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestVMInterop runs the cases between two devices.
func TestVMInterop(t *testing.T) {
	vmtest.Need(t)
	runCases(t, network{
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
	})
}
