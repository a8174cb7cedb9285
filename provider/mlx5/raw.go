// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/provider"
)

// An Ethernet segment (PRM, "Ethernet Segment Format") takes two segments. The header of the packet
// begins in the last two bytes of the first and may fill the second. A longer header takes more
// segments. Without a header, the second is omitted.
const ethHeaderAt = 14

// Lengths of Ethernet headers in bytes. The first is the minimum, and the second has a VLAN tag,
// which some devices require inline.
const (
	ethMinHeader = 14
	ethL2Header  = 18
)

// ethChecksums has the device fill in the checksums of L3 and L4.
const ethChecksums = 1<<6 | 1<<7

// packetHeader returns the header of a raw packet, and the inline data that follows.
func (s *sendQueue) packetHeader(wr *provider.SendWR) (header, data []byte) {
	header, data = wr.Header, wr.InlineData
	if len(header) == 0 && len(data) >= s.packets.minHeader {
		header, data = data[:s.packets.minHeader], data[s.packets.minHeader:]
	}
	return header, data
}

// checkPacket returns the reason why a raw packet cannot be posted.
func (s *sendQueue) checkPacket(kind opKind, wr *provider.SendWR) error {
	header, _ := s.packetHeader(wr)
	n := len(header)
	least, most := s.packets.minHeader, ethL2Header
	if n > 0 {
		least = max(least, ethMinHeader)
	}
	if kind == opLSO {
		least, most = ethMinHeader, s.packets.maxHeader
	}
	switch {
	case n < least || n > most:
		return fmt.Errorf("header of %d bytes in a %v, from %d to %d go: %w", n, wr.Opcode, least, most, syscall.EINVAL)
	case wr.Flags&provider.SendIPChecksum != 0 && !s.packets.checksums:
		return fmt.Errorf("the device fills in no checksums: %w", syscall.EOPNOTSUPP)
	case kind == opLSO && wr.MSS == 0:
		return fmt.Errorf("LSO in segments of 0 bytes: %w", syscall.EINVAL)
	case wr.InlineData == nil && len(wr.SGList) == 0 && kind != opLSO:
		return fmt.Errorf("packet without data: %w", syscall.EINVAL)
	}
	if kind != opLSO {
		return nil
	}
	var total uint64
	for i := range wr.SGList {
		total += uint64(wr.SGList[i].Length)
	}
	if total > uint64(s.packets.maxLSO) {
		return fmt.Errorf("LSO of %d bytes, at most %d: %w", total, s.packets.maxLSO, syscall.EINVAL)
	}
	return nil
}

// ethernet writes the Ethernet segment, and returns the inline data that is to
// follow.
func (w *wqe) ethernet(wr *provider.SendWR) []byte {
	header, data := w.s.packetHeader(wr)
	p := w.p // never at the end of the ring, because a control segment is before it
	*(*[4]uint64)(p) = [4]uint64{}
	var flags uint64
	if wr.Flags&provider.SendIPChecksum != 0 {
		flags = ethChecksums
	}
	put64(p, flags<<24|uint64(wr.MSS))
	put64(unsafe.Add(p, 8), uint64(len(header))<<16)
	w.bytes(ethHeaderAt, header)
	return data
}
