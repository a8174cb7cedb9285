// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// match returns the frame's fields in the format of flow tables.
func match(h *ethernet.Headers) (m [prm.MatchLen]byte) {
	b := m[:]
	copy(prm.Match.DMAC.Of(b), h.Frame[:6])
	copy(prm.Match.SMAC.Of(b), h.Frame[6:12])
	prm.Match.EtherType.Set(b, uint64(h.EtherType))
	if h.VLAN != nil {
		tag := binary.BigEndian.Uint16(h.VLAN)
		prm.Match.CVLANTag.Set(b, 1)
		prm.Match.VLAN.Set(b, uint64(tag))
		prm.Match.VLANPrio.Set(b, uint64(tag>>13))
	}
	if h.Version == 0 {
		return m
	}
	prm.Match.IPVersion.Set(b, uint64(h.Version))
	prm.Match.IPProtocol.Set(b, uint64(h.Proto))
	if h.Fragment {
		prm.Match.Fragment.Set(b, 1)
	}
	tos, ttl := h.IP[1], h.IP[8]
	if h.Version == 6 {
		tos, ttl = uint8(binary.BigEndian.Uint16(h.IP)>>4), h.IP[7]
	}
	prm.Match.DSCP.Set(b, uint64(tos>>2))
	prm.Match.ECN.Set(b, uint64(tos))
	prm.Match.TTL.Set(b, uint64(ttl))
	src, dst := h.Addresses()
	copy(prm.Match.SrcIP.Of(b)[16-len(src):], src)
	copy(prm.Match.DstIP.Of(b)[16-len(dst):], dst)
	if h.L4 == nil {
		return m
	}
	sport, dport := uint64(binary.BigEndian.Uint16(h.L4)), uint64(binary.BigEndian.Uint16(h.L4[2:]))
	if h.Proto == ethernet.TCP {
		prm.Match.TCPSport.Set(b, sport)
		prm.Match.TCPDport.Set(b, dport)
	} else {
		prm.Match.UDPSport.Set(b, sport)
		prm.Match.UDPDport.Set(b, dport)
	}
	return m
}
