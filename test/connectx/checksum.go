// SPDX-License-Identifier: Apache-2.0

package connectx

import "encoding/binary"

// sum adds the 16-bit words of b to a ones' complement sum that has not been folded.
func sum(b []byte, s uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

// fold makes 16 bits of a sum.
func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// checksum writes the checksum of the IPv4 header, and that of TCP or UDP, where the
// frame has them.
func (h *headers) checksum(l3, l4 bool) {
	if l3 && h.version == 4 {
		head := h.ip[:int(h.ip[0]&15)*4]
		head[10], head[11] = 0, 0
		binary.BigEndian.PutUint16(head[10:], ^fold(sum(head, 0)))
	}
	if !l4 || h.l4 == nil {
		return
	}
	at := 16
	if h.proto == protoUDP {
		at = 6
	}
	binary.BigEndian.PutUint16(h.l4[at:], 0)
	c := ^fold(h.pseudo())
	if c == 0 && h.proto == protoUDP {
		c = 0xffff // 0 is none
	}
	binary.BigEndian.PutUint16(h.l4[at:], c)
}

// pseudo is the sum of TCP or UDP with its pseudo header.
func (h *headers) pseudo() uint32 {
	src, dst := h.addresses()
	return sum(h.l4, sum(dst, sum(src, uint32(h.proto)+uint32(len(h.l4)))))
}

// verify says whether the checksum of the IP header is right, and that of TCP or UDP.
func (h *headers) verify() (l3, l4 bool) {
	l3 = h.version == 6 || h.version == 4 && fold(sum(h.ip[:int(h.ip[0]&15)*4], 0)) == 0xffff
	if h.l4 == nil {
		return l3, false
	}
	if h.proto == protoUDP && binary.BigEndian.Uint16(h.l4[6:]) == 0 {
		return l3, h.version == 4
	}
	return l3, fold(h.pseudo()) == 0xffff
}
