// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/binary"
	"testing"
)

// TestChecksums judges packets with right and wrong checksums.
func TestChecksums(t *testing.T) {
	s := &frameSender{mac: make([]byte, 6), far: make([]byte, 6)}
	for _, protocol := range []byte{protocolUDP, protocolTCP} {
		frame := append(s.ipv4(protocol, 5), "hello"...)
		if err := checksums(frame); err == nil {
			t.Errorf("checksums(protocol %d without checksums) = nil, want an error", protocol)
		}
		ip, transport := frame[ethernetHeader:ipv4Header], frame[ipv4Header:]
		binary.BigEndian.PutUint16(ip[10:], sum(0, ip))
		at := 6
		if protocol == protocolTCP {
			at = 16
		}
		pseudo := uint32(^sum(0, ip[12:20])) + uint32(protocol) + uint32(len(transport))
		binary.BigEndian.PutUint16(transport[at:], sum(pseudo, transport))
		if err := checksums(append(frame, 0, 0)); err != nil { // with padding
			t.Errorf("checksums(protocol %d) = %v, want nil", protocol, err)
		}
		frame[len(frame)-1]++
		if err := checksums(frame); err == nil {
			t.Errorf("checksums(protocol %d with wrong data) = nil, want an error", protocol)
		}
	}
	// The example of RFC 1071, section 3.
	if got := sum(0, []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("sum = %#x, want %#x", got, ^uint16(0xddf2))
	}
}
