// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// GRHLen is the number of bytes that a datagram leaves free at the start of its receive, for the
// GRH or its substitute. The message follows. WC.ByteLen counts both.
const GRHLen = 40

// AHAttrFromWC returns the address of a datagram's sender, for a reply (ibv_init_ah_from_wc(3)). wc
// is the datagram's completion. grh is the first GRHLen bytes of its receive, which are valid if wc
// has WCGRH. On RoCE v2 over IPv4 the device puts an IPv4 header into the second half of them. The
// peer controls these bytes. Malformed headers return an error that wraps EINVAL, and so do
// addresses of which the port has no GID. Addresses of multicast groups are among them.
// AHAttrFromGroupWC accepts those. AHAttrFromWC queries the GIDs from the kernel.
func (d *Device) AHAttrFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	a, err := d.ahAttrFromWC(port, wc, grh)
	return a, d.opError("find sender of datagram on", err)
}

// AHAttrFromGroupWC is AHAttrFromWC for a QP that is in a multicast group. The reply to a datagram
// to the group is sent from the GID of the membership. group is the group's address, which
// EventMulticastJoin of package cm reports. libibverbs has no such function.
func (d *Device) AHAttrFromGroupWC(group *AHAttr, wc *WC, grh []byte) (AHAttr, error) {
	a, err := d.ahAttrFromGroupWC(group, wc, grh)
	return a, d.opError("find sender of datagram to a group on", err)
}

func (d *Device) ahAttrFromGroupWC(group *AHAttr, wc *WC, grh []byte) (AHAttr, error) {
	if wc.Flags&WCGRH == 0 {
		return AHAttr{}, fmt.Errorf("a datagram without a GRH: %w", syscall.EINVAL)
	}
	r, err := parseRoute(grh)
	if err != nil {
		return AHAttr{}, err
	}
	if !r.to.Addr().IsMulticast() { // it was sent to the QP only
		return d.ahAttrFromWC(group.Port, wc, grh)
	}
	r.route.SGIDIndex = group.GRH.SGIDIndex
	return AHAttr{Global: true, GRH: r.route, DLID: wc.SLID, SL: wc.SL, SrcPathBits: group.SrcPathBits, Port: group.Port}, nil
}

func (d *Device) ahAttrFromWC(port uint8, wc *WC, grh []byte) (AHAttr, error) {
	a := AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits, Port: port}
	if wc.Flags&WCGRH == 0 {
		return a, nil
	}
	r, err := parseRoute(grh)
	if err != nil {
		return AHAttr{}, err
	}
	gids, err := d.GIDs()
	if err != nil {
		return AHAttr{}, err
	}
	typ := r.typ
	if typ == GIDTypeRoCEv1 && d.LinkLayer(port) == LinkInfiniBand {
		typ = GIDTypeIB
	}
	for _, g := range gids {
		if g.Port == port && g.Type == typ && g.GID == r.to {
			r.route.SGIDIndex = g.Index
			a.Global, a.GRH = true, r.route
			return a, nil
		}
	}
	return AHAttr{}, fmt.Errorf("port %d has no GID %v of type %v: %w", port, r.to, typ, syscall.EINVAL)
}

// route is the return path of a received packet.
type route struct {
	route GlobalRoute // without SGIDIndex
	to    GID         // destination of the packet
	typ   GIDType     // RoCE v1 also for InfiniBand
}

// Values of the next header field of IPv6 and of a GRH.
const (
	nextUDP = 17
	nextBTH = 0x1b
)

// parseRoute reads a GRH, or an IPv6 header, or 20 bytes of anything and an IPv4
// header.
func parseRoute(b []byte) (route, error) {
	if len(b) < GRHLen {
		return route{}, fmt.Errorf("%d bytes of GRH, %d needed: %w", len(b), GRHLen, syscall.EINVAL)
	}
	if isIPv4(b) {
		ip := b[20:40]
		return route{
			route: GlobalRoute{DGID: mapped(ip[12:16]), HopLimit: ip[8], TrafficClass: ip[1]},
			to:    mapped(ip[16:20]),
			typ:   GIDTypeRoCEv2,
		}, nil
	}
	word := binary.BigEndian.Uint32(b)
	if word>>28 != 6 {
		return route{}, fmt.Errorf("GRH of version %d: %w", word>>28, syscall.EINVAL)
	}
	r := route{
		route: GlobalRoute{DGID: GID(b[8:24]), FlowLabel: word & 0xfffff, HopLimit: b[7], TrafficClass: uint8(word >> 20)},
		to:    GID(b[24:40]),
	}
	switch b[6] {
	case nextUDP:
		r.typ = GIDTypeRoCEv2
	case nextBTH:
		r.typ = GIDTypeRoCEv1
	default:
		return route{}, fmt.Errorf("GRH with next header %#x: %w", b[6], syscall.EINVAL)
	}
	return r, nil
}

// isIPv4 distinguishes an IPv4 header in the second half from the rest of a GRH. If the first half
// also looks like the start of a GRH, only the checksum of the second half decides. Devices need
// not write the first half.
func isIPv4(b []byte) bool {
	ip := b[20:40]
	if b[0]>>4 != 6 {
		return ip[0]>>4 == 4
	}
	if ip[0] != 0x45 {
		return false
	}
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum&0xffff + sum>>16
	return sum&0xffff+sum>>16 == 0xffff
}

// mapped returns the GID of an IPv4 address.
func mapped(ip []byte) GID {
	g := GID{10: 0xff, 11: 0xff}
	copy(g[12:], ip)
	return g
}
