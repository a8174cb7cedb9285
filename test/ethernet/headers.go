// SPDX-License-Identifier: Apache-2.0

package ethernet

import "encoding/binary"

// Sizes of headers in bytes.
const (
	HeaderLen = 14
	VLANLen   = 4
	IPv4Len   = 20
	IPv6Len   = 40
)

// EtherTypes, and protocols of IP.
const (
	TypeIPv4 = 0x0800
	TypeIPv6 = 0x86dd
	TypeVLAN = 0x8100

	TCP = 6
	UDP = 17
)

// Headers contains the parts of a frame, which share its memory. A missing or incomplete part is
// nil.
type Headers struct {
	Frame     []byte
	VLAN      []byte // the tag
	EtherType uint16 // after the tag
	IP        []byte // from the IP header on, with its length
	Version   uint8  // IP version 4 or 6, or 0
	Proto     uint8
	Fragment  bool
	L4        []byte // TCP or UDP, with their data
}

// Parse splits a frame. It fails without a complete Ethernet header.
func Parse(frame []byte) (h Headers, ok bool) {
	if len(frame) < HeaderLen {
		return h, false
	}
	h.Frame = frame
	h.EtherType = binary.BigEndian.Uint16(frame[12:])
	rest := frame[HeaderLen:]
	if h.EtherType == TypeVLAN && len(rest) >= VLANLen {
		h.VLAN, h.EtherType = rest[:2], binary.BigEndian.Uint16(rest[2:])
		rest = rest[VLANLen:]
	}
	switch h.EtherType {
	case TypeIPv4:
		h.parseIPv4(rest)
	case TypeIPv6:
		h.parseIPv6(rest)
	}
	return h, true
}

func (h *Headers) parseIPv4(b []byte) {
	if len(b) < IPv4Len || b[0]>>4 != 4 {
		return
	}
	head, n := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if head < IPv4Len || n < head || n > len(b) {
		return
	}
	h.IP, h.Version, h.Proto = b[:n], 4, b[9]
	h.Fragment = binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	h.transport(b[head:n])
}

func (h *Headers) parseIPv6(b []byte) {
	if len(b) < IPv6Len || b[0]>>4 != 6 {
		return
	}
	n := IPv6Len + int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b) {
		return
	}
	h.IP, h.Version, h.Proto = b[:n], 6, b[6]
	h.transport(b[IPv6Len:n])
}

func (h *Headers) transport(b []byte) {
	if !h.Fragment && (h.Proto == TCP && len(b) >= 20 || h.Proto == UDP && len(b) >= 8) {
		h.L4 = b
	}
}

// Addresses returns the source and destination addresses, of IPv4 or IPv6.
func (h *Headers) Addresses() (src, dst []byte) {
	if h.Version == 4 {
		return h.IP[12:16], h.IP[16:20]
	}
	return h.IP[8:24], h.IP[24:40]
}
