// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "slices"

// gid is an address of the port.
type gid struct {
	gid [16]byte
	mac [6]byte
}

// readGID returns the address at an offset. The driver reverses its bytes, and the bytes of each
// half of a word of the MAC address.
func readGID(in []byte) *gid {
	g := &gid{gid: [16]byte(in[0x10:]), mac: [6]byte(in[0x20:])}
	slices.Reverse(g.gid[:])
	for i := 0; i < len(g.mac); i += 2 {
		g.mac[i], g.mac[i+1] = g.mac[i+1], g.mac[i]
	}
	return g
}

// addGID adds an address with the lowest free number. QUERY_QP of a QP without an address returns number 0, which the driver
// looks up.
func addGID(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	n := uint32(0)
	for d.gids[n] != nil {
		n++
	}
	if n == maxGID {
		return refuse(channelNoResource, "there are %d addresses", n)
	}
	d.gids[n] = readGID(in)
	le.PutUint32(answer[4:], n)
	return nil
}

func modifyGID(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	n := uint32(le.Uint16(in[0x2a:]))
	if d.gids[n] == nil {
		return invalid("there is no address %d", n)
	}
	d.gids[n] = readGID(in)
	le.PutUint32(answer[4:], n)
	return nil
}

func deleteGID(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	n := uint32(le.Uint16(in[0x10:]))
	if d.gids[n] == nil {
		return invalid("there is no address %d", n)
	}
	delete(d.gids, n)
	le.PutUint32(answer[4:], n)
	return nil
}

// hasGID reports whether an address belongs to the port.
func (d *Device) hasGID(want [16]byte) bool {
	for _, g := range d.gids {
		if g.gid == want {
			return true
		}
	}
	return false
}

// Network types of connections and datagrams. The driver also registers addresses of RoCE v1.
const (
	networkRoCEv1 = 0
	networkIPv4   = 2
	networkIPv6   = 3
)

// ah is an address handle.
type ah struct {
	pd           uint32
	network      uint8
	sgid         uint32
	dgid         [16]byte
	hopLimit     uint8
	trafficClass uint8
	flowLabel    uint32
}

func createAH(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	a := &ah{
		pd: le.Uint32(in[0x30:]), network: in[0x28] & 3, sgid: uint32(le.Uint16(in[0x2a:])), dgid: [16]byte(in[0x18:]),
		hopLimit: in[0x29], trafficClass: in[0x3e], flowLabel: le.Uint32(in[0x2c:]) & 0xf_ffff,
	}
	switch {
	case d.gids[a.sgid] == nil:
		return invalid("there is no address %d", a.sgid)
	case a.network != networkRoCEv1 && a.network != networkIPv4 && a.network != networkIPv6:
		return invalid("network type %d", a.network)
	}
	n, ok := number(d, d.ahs, "AH", 1, maxAH)
	if !ok {
		return refuse(channelNoResource, "there are %d address handles", len(d.ahs))
	}
	d.ahs[n] = a
	le.PutUint32(answer[4:], n)
	return nil
}

func destroyAH(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	n := le.Uint32(in[0x10:])
	if d.ahs[n] == nil {
		return invalid("there is no address handle %#x", n)
	}
	delete(d.ahs, n)
	le.PutUint32(answer[4:], n)
	return nil
}
