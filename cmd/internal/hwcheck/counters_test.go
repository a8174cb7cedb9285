// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"maps"
	"testing"
)

// TestParseEthtool parses the counters of a network interface.
func TestParseEthtool(t *testing.T) {
	got := parseEthtool("NIC statistics:\n     rx_packets: 12\n     rx0_packets: 5\n     rx_vport_rdma_unicast_packets: 7\n     rx_prio3_bytes: 4\n" +
		"     tx_queue_stopped: 0\n     [2]: rx_bytes: 9\n     ch1_events: 3\n     rx_out_of_buffer: none\n")
	want := map[string]uint64{"ethtool.rx_packets": 12, "ethtool.rx_vport_rdma_unicast_packets": 7, "ethtool.tx_queue_stopped": 0}
	if !maps.Equal(got, want) {
		t.Errorf("parseEthtool = %v, want %v", got, want)
	}
}
