// SPDX-License-Identifier: Apache-2.0

// Package sockaddr reads the IP addresses that the kernel writes as struct sockaddr_storage.
package sockaddr

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"purerdma/abi"
)

// Offsets in struct sockaddr_in and struct sockaddr_in6.
const (
	Port     = 2
	In4Addr  = 4
	In6Addr  = 8
	In6Scope = 24
)

// AddrPort returns the IP address and port in a storage. ok is false for an empty address and for another
// family. A zone is the number of the interface. The flow information of an IPv6 address is dropped.
func AddrPort(sa *abi.SockaddrStorage) (addr netip.AddrPort, ok bool) {
	port := binary.BigEndian.Uint16(sa[Port:])
	switch binary.NativeEndian.Uint16(sa[:]) {
	case abi.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[In4Addr:])), port), true
	case abi.AF_INET6:
		ip := netip.AddrFrom16([16]byte(sa[In6Addr:]))
		if scope := binary.NativeEndian.Uint32(sa[In6Scope:]); scope != 0 {
			ip = ip.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(ip, port), true
	}
	return netip.AddrPort{}, false
}
