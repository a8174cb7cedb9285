// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

const basicIO = 1 << 20 // a bound of the bytes that the first test of the suite sends

// TestVMStream runs the suite on connections of package stream between two devices, twice with receives
// that connections share and once with receives of their own. The long test runs it a hundred times.
func TestVMStream(t *testing.T) {
	vmtest.Need(t)
	runs := 3
	if longtest.Enabled() {
		runs = 100
	}
	for i := range runs {
		private := i%2 == 1
		t.Run(fmt.Sprintf("%d/%s", i, receives(private)), func(t *testing.T) {
			hosts := vmtest.Hosts(t, 2)
			vmtest.NoLeaks(t)
			vmtest.AnyMemory(t)
			lc := stream.ListenConfig{Private: private}
			d := stream.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
			vmtest.OverRDMA(t, basicIO, func() {
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					return pipe(lc.Listen, d.DialContext, hosts[0].IPv4)
				})
			})
		})
	}
}

// TestVMRelay runs the suite through a relay on the other host. The suite has both ends of a connection, so it cannot
// run in two virtual machines. Here both ends are in one, and all bytes go to the other and back. The suite uses a dialed
// connection and an accepted connection. Their peers are in the relay.
func TestVMRelay(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	runs := 1
	if longtest.Enabled() {
		runs = 20
	}
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			vmtest.NoLeaks(t)
			vmtest.AnyMemory(t)
			there, here := dialer(hosts[0].IPv4), dialer(hosts[1].IPv4)
			sides := vmtest.Sides{
				Listen: func(ctx context.Context, address string) (net.Listener, error) {
					return stream.Listen(ctx, "tcp", address)
				},
				Dial: func(ctx context.Context, address string) (net.Conn, error) {
					return here.DialContext(ctx, "tcp", address)
				},
				Serve: func(ln net.Listener) func() { return startRelay(t, ln, there) },
				Call: func(address string) {
					vmtest.OverRDMA(t, 2*basicIO, func() {
						nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
							return relayed(new(stream.ListenConfig), here, address, hosts[1].IPv4)
						})
					})
				},
			}
			sides.Run(t, hosts[0].IPv4)
		})
	}
}

// dialer returns a dialer with the address of a host.
func dialer(host netip.Addr) *stream.Dialer {
	return &stream.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(host, 0))}}
}
