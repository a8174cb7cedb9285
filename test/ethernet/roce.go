// SPDX-License-Identifier: Apache-2.0

package ethernet

import "encoding/binary"

// RoCEHeaderLen is the size in bytes of the header that devices store before a datagram.
const RoCEHeaderLen = 40

// RoCEHeader returns the header before a datagram of n bytes of RoCE v2. It is an IPv4 header in
// the last 20 bytes, or an IPv6 header. For IPv4 the GIDs are mapped addresses.
func RoCEHeader(v4 bool, source, destination [16]byte, class, hops byte, flow uint32, n uint64) (b [RoCEHeaderLen]byte) {
	const udpLen, overhead = 8, 12 + 8 + 4 // BTH, DETH, ICRC
	be := binary.BigEndian
	if v4 {
		ip := b[IPv6Len-IPv4Len:]
		ip[0], ip[1], ip[8], ip[9] = 0x45, class, hops, UDP
		be.PutUint16(ip[2:], uint16(IPv4Len+udpLen+overhead+n))
		copy(ip[12:], source[12:])
		copy(ip[16:], destination[12:])
		be.PutUint16(ip[10:], ^Fold(Sum(ip, 0)))
		return b
	}
	be.PutUint32(b[:], 6<<28|uint32(class)<<20|flow)
	be.PutUint16(b[4:], uint16(udpLen+overhead+n))
	b[6], b[7] = UDP, hops
	copy(b[8:], source[:])
	copy(b[24:], destination[:])
	return b
}
