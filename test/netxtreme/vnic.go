// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"slices"

	"purerdma/test/ethernet"
)

// vnic distributes received frames over rings.
type vnic struct {
	d           *Device
	n           uint16
	ring        uint16 // default receive ring and its completion ring
	completions uint16
	mru         int
	stripVLAN   bool
	roce        bool // whether RDMA takes its messages from the VNIC's addresses

	mask   uint32
	groups [][6]byte

	hash  uint32      // types of frames
	key   [40]byte    // of the hash
	table [][2]uint16 // receive and completion rings by hash, in parts of hashTable entries
}

// Frames that a VNIC accepts besides frames to its filters' addresses.
const (
	maskGroups      = 0x2
	maskAllGroups   = 0x4
	maskBroadcast   = 0x8
	maskPromiscuous = 0x10
)

// filter selects the frames to an address for a VNIC.
type filter struct {
	mac  [6]byte
	vnic uint16
}

func vnicQcaps(_ *Device, _, out []byte) error {
	const stripVLAN = 0x2
	le.PutUint16(out[0x8:], maxMTU+frameOverhead)
	le.PutUint32(out[0xc:], stripVLAN)
	return nil
}

func vnicAlloc(d *Device, in, out []byte) error {
	if len(d.vnics) == int(limits.vnics) {
		return refuse(hwrmNoResource, "there are %d VNICs", len(d.vnics))
	}
	n := d.number(func(n uint16) bool { return d.vnics[n] != nil })
	d.vnics[n] = &vnic{d: d, n: n, ring: noRing, completions: noRing}
	le.PutUint32(out[8:], uint32(n))
	return nil
}

// vnic returns the VNIC with a number.
func (d *Device) vnic(n uint32) (*vnic, error) {
	v := d.vnics[uint16(n)]
	if v == nil || n > 0xffff {
		return nil, refuse(hwrmInvalid, "there is no VNIC %#x", n)
	}
	return v, nil
}

func vnicFree(d *Device, in, _ []byte) error {
	v, err := d.vnic(le.Uint32(in[0x10:]))
	if err == nil {
		delete(d.vnics, v.n)
	}
	return err
}

func vnicCfg(d *Device, in, _ []byte) error {
	v, err := d.vnic(uint32(le.Uint16(in[0x18:])))
	if err != nil {
		return err
	}
	const enableRing, enableCompletions = 0x20, 0x40
	flags, enables := le.Uint32(in[0x10:]), le.Uint32(in[0x14:])
	if enables&enableRing != 0 {
		if v.ring = le.Uint16(in[0x24:]); d.rxs[v.ring] == nil {
			return refuse(hwrmInvalid, "there is no receive ring %d", v.ring)
		}
	}
	if enables&enableCompletions != 0 {
		if v.completions = le.Uint16(in[0x26:]); d.completions[v.completions] == nil {
			return refuse(hwrmInvalid, "there is no completion ring %d", v.completions)
		}
	}
	v.mru = int(le.Uint16(in[0x22:]))
	v.stripVLAN, v.roce = flags&0x2 != 0, flags&0x8 != 0
	return nil
}

// vnicPlacement accepts the placement of frames in the first buffer and then in further ones.
func vnicPlacement(d *Device, in, _ []byte) error {
	_, err := d.vnic(le.Uint32(in[0x18:]))
	return err
}

// hashTable is the number of entries of a hash context.
const hashTable = 64

func hashContextAlloc(d *Device, _, out []byte) error {
	if len(d.hashContexts) == int(limits.hashContexts) {
		return refuse(hwrmNoResource, "there are %d contexts", len(d.hashContexts))
	}
	n := d.number(func(n uint16) bool { return d.hashContexts[n] })
	d.hashContexts[n] = true
	le.PutUint16(out[8:], n)
	return nil
}

func hashContextFree(d *Device, in, _ []byte) error {
	n := le.Uint16(in[0x10:])
	if !d.hashContexts[n] {
		return refuse(hwrmInvalid, "there is no context %d", n)
	}
	delete(d.hashContexts, n)
	return nil
}

// vnicRSSCfg sets a part of the table of rings.
func vnicRSSCfg(d *Device, in, _ []byte) error {
	v, err := d.vnic(uint32(le.Uint16(in[0x14:])))
	if err != nil {
		return err
	}
	if v.hash = le.Uint32(in[0x10:]); v.hash == 0 {
		v.table = nil
		return nil
	}
	part, ctx := int(in[0x16]), le.Uint16(in[0x28:])
	table := d.mem.Bytes(le.Uint64(in[0x18:]), 4*hashTable)
	key := d.mem.Bytes(le.Uint64(in[0x20:]), len(v.key))
	switch {
	case !d.hashContexts[ctx]:
		return refuse(hwrmInvalid, "there is no context %d", ctx)
	case part >= int(limits.hashContexts) || table == nil || key == nil:
		return refuse(hwrmInvalid, "part %d with a table at %#x and a key at %#x", part, le.Uint64(in[0x18:]), le.Uint64(in[0x20:]))
	}
	copy(v.key[:], key)
	if need := (part + 1) * hashTable; len(v.table) < need {
		v.table = append(v.table, make([][2]uint16, need-len(v.table))...)
	}
	for i := range hashTable {
		rx, c := le.Uint16(table[4*i:]), le.Uint16(table[4*i+2:])
		if d.rxs[rx] == nil || d.completions[c] == nil {
			return refuse(hwrmInvalid, "entry %d has the rings %d and %d", i, rx, c)
		}
		v.table[part*hashTable+i] = [2]uint16{rx, c}
	}
	return nil
}

// ringFor returns the rings for a frame, and the hash that has selected them.
func (v *vnic) ringFor(h *ethernet.Headers) (r *rxRing, c *completionRing, hash uint32) {
	rx, completions := v.ring, v.completions
	if hash = v.hashOf(h); hash != 0 && len(v.table) > 0 {
		e := v.table[hash%uint32(len(v.table))]
		rx, completions = e[0], e[1]
	}
	return v.d.rxs[rx], v.d.completions[completions], hash
}

// hashOf returns the hash of a frame, or 0 without one.
func (v *vnic) hashOf(h *ethernet.Headers) uint32 {
	const ipv4, tcpv4, udpv4, ipv6, tcpv6, udpv6 = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
	if h.Version == 0 {
		return 0
	}
	ip, l4 := uint32(ipv4), uint32(tcpv4)
	if h.Version == 6 {
		ip, l4 = ipv6, tcpv6
	}
	if h.Proto == ethernet.UDP {
		l4 <<= 1
	}
	src, dst := h.Addresses()
	b := append(bytes.Clone(src), dst...)
	switch {
	case h.L4 != nil && v.hash&l4 != 0:
		b = append(b, h.L4[:4]...)
	case v.hash&ip == 0:
		return 0
	}
	return ethernet.Toeplitz(v.key[:], b)
}

func filterAlloc(d *Device, in, out []byte) error {
	const enableAddress, enableVNIC = 0x1, 0x8000
	if e := le.Uint32(in[0x14:]); e&enableAddress == 0 || e&enableVNIC == 0 {
		return refuse(hwrmInvalid, "a filter with fields %#x", e)
	}
	if len(d.filters) == int(limits.filters) {
		return refuse(hwrmNoResource, "there are %d filters", len(d.filters))
	}
	v, err := d.vnic(uint32(le.Uint16(in[0x4e:])))
	if err != nil {
		return err
	}
	n := uint64(d.number(func(n uint16) bool { return d.filters[uint64(n)] != nil }))
	d.filters[n] = &filter{[6]byte(in[0x18:]), v.n}
	le.PutUint64(out[8:], n)
	return nil
}

func filterFree(d *Device, in, _ []byte) error {
	n := le.Uint64(in[0x10:])
	if d.filters[n] == nil {
		return refuse(hwrmInvalid, "there is no filter %#x", n)
	}
	delete(d.filters, n)
	return nil
}

func setRxMask(d *Device, in, _ []byte) error {
	v, err := d.vnic(le.Uint32(in[0x10:]))
	if err != nil {
		return err
	}
	n := le.Uint32(in[0x20:])
	if v.mask = le.Uint32(in[0x14:]); v.mask&maskGroups == 0 {
		n = 0
	}
	if n > maxMulticast {
		return refuse(hwrmInvalid, "%d groups, want at most %d", n, maxMulticast)
	}
	v.groups = nil
	if n == 0 {
		return nil
	}
	b := d.mem.Bytes(le.Uint64(in[0x18:]), int(n)*6)
	if b == nil {
		return refuse(hwrmInvalid, "%d groups at %#x", n, le.Uint64(in[0x18:]))
	}
	for i := range n {
		v.groups = append(v.groups, [6]byte(b[6*i:]))
	}
	return nil
}

// accepts reports whether the VNIC takes a frame.
func (v *vnic) accepts(frame []byte) bool {
	to := [6]byte(frame)
	switch {
	case v.mask&maskPromiscuous != 0:
		return true
	case to == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}:
		return v.mask&maskBroadcast != 0
	case to[0]&1 != 0:
		return v.mask&maskAllGroups != 0 || slices.Contains(v.groups, to)
	}
	for _, f := range v.d.filters {
		if f.vnic == v.n && f.mac == to {
			return true
		}
	}
	return false
}
