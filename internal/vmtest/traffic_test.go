// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"net"
	"os"
	"testing"
)

func TestOutSegs(t *testing.T) {
	const snmp = "Ip: Forwarding DefaultTTL\nIp: 2 64\nTcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 42 3\nUdp: InDatagrams\nUdp: 7\n"
	if n, err := outSegs(snmp); n != 42 || err != nil {
		t.Errorf("outSegs() = %d, %v, want 42", n, err)
	}
	if n, err := outSegs("Ip: 1\n"); err == nil {
		t.Errorf("outSegs() without TCP = %d, want an error", n)
	}
}

// TestTCPSockets checks that a TCP socket of the process is found.
func TestTCPSockets(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip("no /proc")
	}
	before := tcpSockets(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	if got := tcpSockets(t); len(got) != len(before)+1 {
		t.Errorf("tcpSockets() = %q with a listener, and %q before it, want one more", got, before)
	}
}
