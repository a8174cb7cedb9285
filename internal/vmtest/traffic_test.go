// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"net"
	"os"
	"testing"
)

// TestNotOverRDMA has the counters of transfers by RDMA, and of transfers that are not.
func TestNotOverRDMA(t *testing.T) {
	const size = 1 << 20
	rxe := map[string]int64{"packets": 300, "interface": size + 5000}
	mlx5 := map[string]int64{"port": size}
	for _, c := range []struct {
		driver  string
		grown   map[string]int64
		changed string // a counter
		by      int64
		wrong   bool
	}{
		{"rxe", rxe, "", 0, false},
		{"rxe", rxe, "packets", -290, true},
		{"rxe", rxe, "interface", -6000, true},
		{"rxe", rxe, "TCP", 1, true},
		{"rxe", rxe, "RNR", 1, true},
		{"mlx5", mlx5, "", 0, false},
		{"mlx5", mlx5, "port", -1, true},
		{"mlx5", mlx5, "TCP", 1, true},
		{"bnxt_re", mlx5, "", 0, false},
		{"bnxt_re", mlx5, "port", -1, true},
		{"siw", nil, "interface", size, false},
		{"siw", nil, "", 0, true},
		{"erdma", nil, "TCP", 1, false},
		{"erdma", nil, "interface", size, true},
		{"other", rxe, "", 0, true},
	} {
		grown := map[string]int64{c.changed: c.by}
		for name, n := range c.grown {
			grown[name] += n
		}
		if got := notOverRDMA(c.driver, size, grown); len(got) > 0 != c.wrong {
			t.Errorf("notOverRDMA(%q, %d, %v) = %q, want problems: %v", c.driver, size, grown, got, c.wrong)
		}
	}
}

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
