// SPDX-License-Identifier: Apache-2.0

package grpc

import (
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
	runCases(t, func(t *testing.T) (net.Listener, *stream.Dialer) {
		hosts := vmtest.Hosts(t, 2)
		vmtest.NoLeaks(t)
		vmtest.AnyMemory(t)
		ln, err := stream.Listen(t.Context(), "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		local := cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))
		return ln, &stream.Dialer{CM: cm.Dialer{LocalAddr: local}}
	}, func(t *testing.T, size int64, run func()) { vmtest.OverRDMA(t, size, run) })
}
