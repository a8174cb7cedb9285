// SPDX-License-Identifier: Apache-2.0

package netxtreme

// statistics is a block of counters in the host's memory. A nil block counts nothing.
type statistics struct {
	d    *Device
	addr uint64
}

// statisticsSize is the size in bytes of a block.
const statisticsSize = 160

// Offsets of counters of unicast frames. The counters of groups and of broadcasts follow.
const (
	countRx        = 0x00
	countRxDropped = 0x18
	countRxBytes   = 0x28
	countTx        = 0x40
	countTxBytes   = 0x68
)

func statCtxAlloc(d *Device, in, out []byte) error {
	addr := le.Uint64(in[0x10:])
	switch {
	case d.mem.Bytes(addr, statisticsSize) == nil || le.Uint16(in[0x1e:]) < statisticsSize:
		return refuse(hwrmInvalid, "%d bytes for statistics at %#x", le.Uint16(in[0x1e:]), addr)
	case len(d.statistics) == int(limits.statistics):
		return refuse(hwrmNoResource, "there are %d blocks", len(d.statistics))
	}
	n := uint32(d.number(func(n uint16) bool { return d.statistics[uint32(n)] != nil }))
	d.statistics[n] = &statistics{d, addr}
	le.PutUint32(out[8:], n)
	return nil
}

func statCtxFree(d *Device, in, out []byte) error {
	n := le.Uint32(in[0x10:])
	if d.statistics[n] == nil {
		return refuse(hwrmInvalid, "there are no statistics %d", n)
	}
	if d.traffic == d.statistics[n] {
		d.traffic = nil
	}
	delete(d.statistics, n)
	return nil
}

// add adds to a counter.
func (s *statistics) add(off int, n uint64) {
	if s == nil {
		return
	}
	if b := s.d.mem.Bytes(s.addr+uint64(off), 8); b != nil {
		le.PutUint64(b, le.Uint64(b)+n)
	}
}

// class returns 0 for a unicast frame, 1 for a multicast frame, and 2 for a broadcast.
func class(frame []byte) int {
	switch {
	case frame[0]&1 == 0:
		return 0
	case frame[0] == 0xff:
		return 2
	}
	return 1
}

func (s *statistics) sent(frame []byte) {
	s.add(countTx+8*class(frame), 1)
	s.add(countTxBytes+8*class(frame), uint64(len(frame)))
}

func (s *statistics) received(frame []byte) {
	s.add(countRx+8*class(frame), 1)
	s.add(countRxBytes+8*class(frame), uint64(len(frame)))
}

// packetOverhead is the number of bytes of the headers and checksums around the data of a RoCE packet (Ethernet, IPv4,
// UDP and BTH).
const packetOverhead = 58

// carry counts the packets of a message, or of an answer, to another device.
func (d *Device) carry(to *Device, packets uint32, bytes uint64) {
	bytes += uint64(packets) * packetOverhead
	d.traffic.add(countTx, uint64(packets))
	d.traffic.add(countTxBytes, bytes)
	to.traffic.add(countRx, uint64(packets))
	to.traffic.add(countRxBytes, bytes)
}

func (s *statistics) dropped() { s.add(countRxDropped, 1) }
