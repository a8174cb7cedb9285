// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"testing"

	"purerdma/provider"
)

// TestPacketBounds checks the smallest and the largest valid packets, and invalid ones next to
// them.
func TestPacketBounds(t *testing.T) {
	var s sendQueue
	s.transport = transportRaw
	s.packets.minHeader, s.packets.maxHeader, s.packets.maxLSO = 18, 64, 1000
	data := []provider.SGE{{Length: 600}, {Length: 400}}
	more := []provider.SGE{{Length: 600}, {Length: 401}}
	wraps := []provider.SGE{{Length: 1 << 31}, {Length: 1<<31 + 5}}
	for _, tc := range []struct {
		name   string
		kind   opKind
		header int
		sg     []provider.SGE
		mss    uint16
		ok     bool
	}{
		{"all of the data of an LSO", opLSO, 14, data, 1, true},
		{"more data", opLSO, 14, more, 1, false},
		{"lengths whose sum wraps", opLSO, 14, wraps, 1, false},
		{"the longest header", opLSO, 64, data, 1, true},
		{"a longer header", opLSO, 65, data, 1, false},
		{"a short header", opLSO, 13, data, 1, false},
		{"no segments", opLSO, 14, data, 0, false},
		{"the header that the device wants", opPlain, 18, data, 0, true},
		{"less header", opPlain, 17, data, 0, false},
		{"more header", opPlain, 19, data, 0, false},
		{"no data", opPlain, 18, nil, 0, false},
	} {
		wr := provider.SendWR{Opcode: provider.OpSend, Header: make([]byte, tc.header), SGList: tc.sg, MSS: tc.mss}
		if err := s.checkPacket(tc.kind, &wr); (err == nil) != tc.ok {
			t.Errorf("%s: checkPacket = %v, want success %v", tc.name, err, tc.ok)
		}
	}
}
