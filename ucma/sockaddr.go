// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"purerdma/abi"
	"purerdma/internal/sockaddr"
)

// Addr is an address argument of the connection manager, either an IP address and port or an
// address of InfiniBand. The zero Addr is no address. If IB is not zero, it takes precedence.
type Addr struct {
	netip.AddrPort
	IB IBAddr
}

// IP returns the Addr of an IP address and port.
func IP(ap netip.AddrPort) Addr { return Addr{AddrPort: ap} }

// EncodeSockaddr returns addr as the kernel reads it, and its length. A zone is
// the name or the number of an interface. An IPv4 address in IPv6 form stays one
// of IPv6, as librdmacm passes on what getaddrinfo(3) makes of "::ffff:10.8.0.1".
func EncodeSockaddr(addr Addr) (sa abi.SockaddrStorage, size uint16, err error) {
	if addr.IB != (IBAddr{}) {
		addr.IB.encode(&sa)
		return sa, abi.SizeofSockaddrIB, nil
	}
	binary.BigEndian.PutUint16(sa[sockaddr.Port:], addr.Port())
	ip := addr.Addr()
	switch {
	case ip.Is4():
		binary.NativeEndian.PutUint16(sa[:], abi.AF_INET)
		a := ip.As4()
		copy(sa[sockaddr.In4Addr:], a[:])
		return sa, abi.SizeofSockaddrIn, nil
	case ip.Is6():
		binary.NativeEndian.PutUint16(sa[:], abi.AF_INET6)
		a := ip.As16()
		copy(sa[sockaddr.In6Addr:], a[:])
		scope, err := ScopeID(ip.Zone())
		binary.NativeEndian.PutUint32(sa[sockaddr.In6Scope:], scope)
		return sa, abi.SizeofSockaddrIn6, err
	}
	return sa, 0, errors.New("the address is neither an IPv4, an IPv6 nor an InfiniBand address")
}

// DecodeSockaddr reads an address that the kernel wrote. ok is false for an empty address and for
// an unknown family. A zone is the number of the interface. The flow information of an IPv6 address
// is dropped.
func DecodeSockaddr(sa *abi.SockaddrStorage) (addr Addr, ok bool) {
	if binary.NativeEndian.Uint16(sa[:]) == abi.AF_IB {
		ib := decodeIBAddr(sa)
		return Addr{IB: ib}, ib != IBAddr{}
	}
	ap, ok := sockaddr.AddrPort(sa)
	return IP(ap), ok
}

// ScopeID returns the number of an IPv6 zone, which is a number or the name of an interface of this
// thread's network namespace. The number of no zone is 0.
func ScopeID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, &net.AddrError{Err: "no such interface", Addr: zone}
	}
	return uint32(ifi.Index), nil
}
