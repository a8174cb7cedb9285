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
	"purerdma/rsocket"
)

// TestVMRsocket runs the suite on connections of package rsocket between two devices. The long test runs it twenty
// times.
func TestVMRsocket(t *testing.T) {
	vmtest.Need(t)
	runs := 1
	if longtest.Enabled() {
		runs = 20
	}
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			hosts := vmtest.Hosts(t, 2)
			vmtest.NoLeaks(t)
			vmtest.AnyMemory(t)
			var lc rsocket.ListenConfig
			d := rsocket.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
			vmtest.OverRDMA(t, basicIO, func() {
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					return rsocketPipe(&lc, &d, hosts[0].IPv4, vmtest.IWARP())
				})
			})
		})
	}
}
