// SPDX-License-Identifier: Apache-2.0

package nettest

import (
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
			const basicIO = 1 << 20 // the bytes that the first test of the suite sends
			vmtest.OverRDMA(t, basicIO, func() {
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					return pipe(&lc, &d, hosts[0].IPv4)
				})
			})
		})
	}
}
