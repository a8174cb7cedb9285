// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// Sizes and constants of headers.
const (
	etherHeader = 14
	vlanTag     = 4
	ipv4Header  = 20
	ipv6Header  = 40

	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100

	protoTCP = 6
	protoUDP = 17
)

// headers contains the parts of a frame. A missing or incomplete part is nil.
type headers struct {
	frame    []byte
	vlan     []byte // the tag
	ether    uint16 // the EtherType after the tag
	ip       []byte // from the IP header on, with its length
	version  uint8  // IP version 4 or 6, or 0
	proto    uint8
	fragment bool
	l4       []byte // TCP or UDP, with their data
}

// parse splits a frame. It fails without a complete Ethernet header.
func parse(frame []byte) (h headers, ok bool) {
	if len(frame) < etherHeader {
		return h, false
	}
	h.frame = frame
	h.ether = binary.BigEndian.Uint16(frame[12:])
	rest := frame[etherHeader:]
	if h.ether == etherVLAN && len(rest) >= vlanTag {
		h.vlan, h.ether = rest[:2], binary.BigEndian.Uint16(rest[2:])
		rest = rest[vlanTag:]
	}
	switch h.ether {
	case etherIPv4:
		h.parseIPv4(rest)
	case etherIPv6:
		h.parseIPv6(rest)
	}
	return h, true
}

func (h *headers) parseIPv4(b []byte) {
	if len(b) < ipv4Header || b[0]>>4 != 4 {
		return
	}
	head, n := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if head < ipv4Header || n < head || n > len(b) {
		return
	}
	h.ip, h.version, h.proto = b[:n], 4, b[9]
	h.fragment = binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	h.transport(b[head:n])
}

func (h *headers) parseIPv6(b []byte) {
	if len(b) < ipv6Header || b[0]>>4 != 6 {
		return
	}
	n := ipv6Header + int(binary.BigEndian.Uint16(b[4:]))
	if n > len(b) {
		return
	}
	h.ip, h.version, h.proto = b[:n], 6, b[6]
	h.transport(b[ipv6Header:n])
}

func (h *headers) transport(b []byte) {
	if !h.fragment && (h.proto == protoTCP && len(b) >= 20 || h.proto == protoUDP && len(b) >= 8) {
		h.l4 = b
	}
}

// addresses returns the source and destination addresses, of IPv4 or IPv6.
func (h *headers) addresses() (src, dst []byte) {
	if h.version == 4 {
		return h.ip[12:16], h.ip[16:20]
	}
	return h.ip[8:24], h.ip[24:40]
}

// match returns the frame's fields in the format of flow tables.
func (h *headers) match() (m [prm.MatchLen]byte) {
	b := m[:]
	copy(prm.Match.DMAC.Of(b), h.frame[:6])
	copy(prm.Match.SMAC.Of(b), h.frame[6:12])
	prm.Match.EtherType.Set(b, uint64(h.ether))
	if h.vlan != nil {
		tag := binary.BigEndian.Uint16(h.vlan)
		prm.Match.CVLANTag.Set(b, 1)
		prm.Match.VLAN.Set(b, uint64(tag))
		prm.Match.VLANPrio.Set(b, uint64(tag>>13))
	}
	if h.version == 0 {
		return m
	}
	prm.Match.IPVersion.Set(b, uint64(h.version))
	prm.Match.IPProtocol.Set(b, uint64(h.proto))
	if h.fragment {
		prm.Match.Fragment.Set(b, 1)
	}
	tos, ttl := h.ip[1], h.ip[8]
	if h.version == 6 {
		tos, ttl = uint8(binary.BigEndian.Uint16(h.ip)>>4), h.ip[7]
	}
	prm.Match.DSCP.Set(b, uint64(tos>>2))
	prm.Match.ECN.Set(b, uint64(tos))
	prm.Match.TTL.Set(b, uint64(ttl))
	src, dst := h.addresses()
	copy(prm.Match.SrcIP.Of(b)[16-len(src):], src)
	copy(prm.Match.DstIP.Of(b)[16-len(dst):], dst)
	if h.l4 == nil {
		return m
	}
	sport, dport := uint64(binary.BigEndian.Uint16(h.l4)), uint64(binary.BigEndian.Uint16(h.l4[2:]))
	if h.proto == protoTCP {
		prm.Match.TCPSport.Set(b, sport)
		prm.Match.TCPDport.Set(b, dport)
	} else {
		prm.Match.UDPSport.Set(b, sport)
		prm.Match.UDPDport.Set(b, dport)
	}
	return m
}
