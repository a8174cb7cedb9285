// SPDX-License-Identifier: Apache-2.0

package connectx

import "encoding/binary"

// sum adds the 16-bit words of b to an unfolded ones' complement sum.
func sum(b []byte, s uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

// fold folds a sum to 16 bits.
func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// checksum writes the checksums of the IPv4 header and of TCP or UDP, if the frame has these
// headers.
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
		c = 0xffff // 0 means no checksum
	}
	binary.BigEndian.PutUint16(h.l4[at:], c)
}

// pseudo returns the sum of TCP or UDP including its pseudo header.
func (h *headers) pseudo() uint32 {
	src, dst := h.addresses()
	return sum(h.l4, sum(dst, sum(src, uint32(h.proto)+uint32(len(h.l4)))))
}

// verify reports whether the checksums of the IP header and of TCP or UDP are correct.
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
