// SPDX-License-Identifier: Apache-2.0

package ethernet

import "encoding/binary"

// Sum adds the 16-bit words of b to an unfolded ones' complement Sum.
func Sum(b []byte, s uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

// Fold folds a Sum to 16 bits.
func Fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// Checksum writes the checksums of the IPv4 header and of TCP or UDP, if the frame has these
// headers.
func (h *Headers) Checksum(l3, l4 bool) {
	if l3 && h.Version == 4 {
		head := h.IP[:int(h.IP[0]&15)*4]
		head[10], head[11] = 0, 0
		binary.BigEndian.PutUint16(head[10:], ^Fold(Sum(head, 0)))
	}
	if !l4 || h.L4 == nil {
		return
	}
	at := 16
	if h.Proto == UDP {
		at = 6
	}
	binary.BigEndian.PutUint16(h.L4[at:], 0)
	c := ^Fold(h.pseudo())
	if c == 0 && h.Proto == UDP {
		c = 0xffff // 0 means no checksum
	}
	binary.BigEndian.PutUint16(h.L4[at:], c)
}

// pseudo returns the Sum of TCP or UDP including its pseudo header.
func (h *Headers) pseudo() uint32 {
	src, dst := h.Addresses()
	return Sum(h.L4, Sum(dst, Sum(src, uint32(h.Proto)+uint32(len(h.L4)))))
}

// Verify reports whether the checksums of the IP header and of TCP or UDP are correct.
func (h *Headers) Verify() (l3, l4 bool) {
	l3 = h.Version == 6 || h.Version == 4 && Fold(Sum(h.IP[:int(h.IP[0]&15)*4], 0)) == 0xffff
	if h.L4 == nil {
		return l3, false
	}
	if h.Proto == UDP && binary.BigEndian.Uint16(h.L4[6:]) == 0 {
		return l3, h.Version == 4
	}
	return l3, Fold(h.pseudo()) == 0xffff
}
