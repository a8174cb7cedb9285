// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/ucma"
	"purerdma/verbs"
)

// Addr is an address of the connection manager. It is an IP address and a port of the RDMA
// port space, or an address of InfiniBand. On InfiniBand and RoCE the RDMA port space is not
// the port space of the TCP stack. On iWARP both are the same. The zero Addr is no address.
// Addrs can be compared with ==. Addr implements net.Addr.
//
// The zone of an IPv6 address is the name or the number of an interface. Addresses from the
// kernel have the number. Listen and Resolve treat an IPv4 address in IPv6 form
// ("::ffff:10.8.0.1") as an IPv6 address, as librdmacm does. In a pair that must have one
// family ([Dialer.LocalAddr], [ID.ResolveAddr]), it counts as an IPv4 address if the other
// address is one.
type Addr struct {
	netip.AddrPort
	// IB is the address if it is an InfiniBand address (AF_IB). AddrPort is then zero.
	IB IBAddr
}

// IsValid reports whether a is an IP address or an InfiniBand address.
func (a Addr) IsValid() bool { return a.isIB() || a.AddrPort.IsValid() }

func (a Addr) isIB() bool { return a.IB != IBAddr{} }

// Port returns the port. For an InfiniBand address it returns the port of the service ID.
func (a Addr) Port() uint16 {
	if a.isIB() {
		return a.IB.Port()
	}
	return a.AddrPort.Port()
}

// Network returns "rdma", or "ib" for an InfiniBand address.
func (a Addr) Network() string {
	if a.isIB() {
		return "ib"
	}
	return "rdma"
}

// String returns the address as "10.8.0.1:7471", "[fe80::1%eth0]:7471" or, with
// the GID and the service ID, "ib[fe80::1]:0x1061d2f", and "" for the zero Addr.
func (a Addr) String() string {
	switch {
	case a.isIB():
		return a.IB.String()
	case a.AddrPort.IsValid():
		return a.AddrPort.String()
	}
	return ""
}

// MarshalText returns the text of String.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// AppendText appends the text of String.
func (a Addr) AppendText(b []byte) ([]byte, error) { return append(b, a.String()...), nil }

// AddrFrom returns the Addr of an IP address and port.
func AddrFrom(ap netip.AddrPort) Addr { return Addr{AddrPort: ap} }

// ParseAddr parses an IP address and port, such as "10.8.0.1:7471" or
// "[fe80::1%eth0]:7471".
func ParseAddr(s string) (Addr, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Addr{}, &net.AddrError{Err: "not an IP address and port", Addr: s}
	}
	return AddrFrom(ap), nil
}

func addrFromKernel(sa *abi.SockaddrStorage) Addr {
	a, _ := ucma.DecodeSockaddr(sa)
	return Addr(a)
}

// lookup resolves "host:port" with Go's resolver. network names the port space and the family.
// It is "tcp", "tcp4", "tcp6", "udp", "udp4" or "udp6". For a listener, as in package net, an empty host or
// "::" is the wildcard address of the network's family, and an empty address also means any port. If local is
// given and a name has several addresses, lookup prefers an address of the family of local.
func lookup(ctx context.Context, network, address string, listen bool, local Addr) (Addr, PortSpace, error) {
	cdev.NeedContext(ctx)
	ps, err := portSpaceOf(network)
	if err != nil {
		return Addr{}, 0, err
	}
	addr, err := lookupIP(ctx, network, address, listen, local)
	return addr, ps, err
}

func lookupIP(ctx context.Context, network, address string, listen bool, local Addr) (Addr, error) {
	family := familyOf(network)
	if listen && address == "" {
		address = ":0"
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Addr{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return Addr{}, err
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case listen && (host == "" || ip == netip.IPv6Unspecified()):
		if family == "4" {
			return wildcard4(uint16(port)), nil
		}
		// It also takes IPv4 requests, unless the host's net.ipv6.bindv6only forbids it.
		return AddrFrom(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port))), nil
	case host == "":
		return Addr{}, &net.AddrError{Err: "missing host", Addr: address}
	case err == nil && ip.Is6() && family != "4":
		// The resolver would lose the zone, and would convert an IPv4 address in IPv6 form to
		// an IPv4 address.
		return AddrFrom(netip.AddrPortFrom(ip, uint16(port))), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+family, host)
	if err != nil {
		return Addr{}, err
	}
	if len(ips) == 0 {
		return Addr{}, &net.AddrError{Err: "no suitable address", Addr: address}
	}
	return AddrFrom(netip.AddrPortFrom(choose(ips, local), uint16(port))), nil
}

// familyOf returns "4" or "6" for a network of one family, and otherwise "".
func familyOf(network string) string { return strings.TrimLeft(network, "tcpud") }

// wildcard4 returns the address of a listener on all IPv4 addresses.
func wildcard4(port uint16) Addr {
	return AddrFrom(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
}

// withoutIPv6 returns the address for a listener on a host with devices that refuse IPv6, and reports whether
// there is one. addr is the result of lookup for the network.
func withoutIPv6(network string, addr Addr) (Addr, bool) {
	if addr.Addr() != netip.IPv6Unspecified() || familyOf(network) != "" {
		return Addr{}, false
	}
	return wildcard4(addr.Port()), true
}

// choose returns the first address of a name that has the family of local or, without local, is
// an IPv4 address, as in package net. If there is none, it returns the first address.
// LookupNetIP returns IPv4 addresses in IPv6 form.
func choose(ips []netip.Addr, local Addr) netip.Addr {
	want4 := !local.Addr().Unmap().Is6()
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() == want4 {
			return ip
		}
	}
	return ips[0].Unmap()
}

var errNoAddr = fmt.Errorf("no address is given: %w", syscall.EINVAL)

// IBAddr is an address of InfiniBand (struct sockaddr_ib, infiniband/ib.h). It holds the GID of
// a port and a service ID. The zero IBAddr is no address.
type IBAddr = ucma.IBAddr

// defaultPKey is the key of the partition that every port is a full member of.
const defaultPKey = 0xffff

// AddrFromGID returns the address that librdmacm makes of a GID and a port (rdma_getaddrinfo(3)
// with AF_IB). The address is in the default partition, at the service ID of that port in a
// port space. Port 0 is any port, and port space 0 is any port space.
func AddrFromGID(gid verbs.GID, ps PortSpace, port uint16) Addr {
	ib := IBAddr{PKey: defaultPKey, GID: gid, ServiceID: uint64(ps)<<16 | uint64(port)}
	if ps != 0 {
		ib.ServiceIDMask |= ibPortSpaceMask
	}
	if port != 0 {
		ib.ServiceIDMask |= ibPortMask
	}
	return Addr{IB: ib}
}

// Masks of the port space and of the port in a service ID (RDMA_IB_IP_PS_MASK and
// RDMA_IB_IP_PORT_MASK, rdma_cma.h).
const (
	ibPortSpaceMask = 0xffffffffffff0000
	ibPortMask      = 0xffff
)

// family returns the name of the family to which the kernel assigns an address.
func (a Addr) family() string {
	switch {
	case a.isIB():
		return "InfiniBand"
	case a.Addr().Is4():
		return "IPv4"
	}
	return "IPv6"
}

// unmapped converts an IPv4 address in IPv6 form to an IPv4 address, and returns any other
// address unchanged.
func (a Addr) unmapped() Addr {
	if a.Addr().Is4In6() {
		a.AddrPort = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return a
}

// oneFamily checks that two addresses have the same family, if both are given. It converts an
// IPv4 address in IPv6 form, such as net.TCPAddr makes, if the other address is an IPv4
// address. The kernel would refuse that pair.
func oneFamily(local, remote Addr) (Addr, Addr, error) {
	if !local.IsValid() || !remote.IsValid() || local.family() == remote.family() {
		return local, remote, nil
	}
	if l, r := local.unmapped(), remote.unmapped(); l.family() == r.family() {
		return l, r, nil
	}
	return local, remote, &ArgumentError{Name: "the destination", Value: remote, Max: -1,
		Reason: fmt.Sprintf("there is no way from an address of %s to one of %s", local.family(), remote.family())}
}

// PortSpace defines the meaning of a port number, and with it the kind of QP behind an ID (enum
// rdma_port_space, rdma_cma.h).
type PortSpace uint16

// The port spaces. Each has its own port numbers, which are not the port numbers of the TCP/IP
// stack.
const (
	// PortSpaceTCP is the space of reliable connections (RDMA_PS_TCP).
	PortSpaceTCP PortSpace = abi.RDMA_PS_TCP
	// PortSpaceUDP is the space of datagrams, and of multicast (RDMA_PS_UDP).
	PortSpaceUDP PortSpace = abi.RDMA_PS_UDP
	// PortSpaceIPoIB is the space of datagrams that share the multicast groups and the queue
	// key of IP over InfiniBand (RDMA_PS_IPOIB).
	PortSpaceIPoIB PortSpace = abi.RDMA_PS_IPOIB
	// PortSpaceIB is the space of InfiniBand service IDs, for any type of QP
	// (RDMA_PS_IB).
	PortSpaceIB PortSpace = abi.RDMA_PS_IB
)

// String returns the C name of the port space.
func (ps PortSpace) String() string {
	switch ps {
	case PortSpaceTCP:
		return "RDMA_PS_TCP"
	case PortSpaceUDP:
		return "RDMA_PS_UDP"
	case PortSpaceIPoIB:
		return "RDMA_PS_IPOIB"
	case PortSpaceIB:
		return "RDMA_PS_IB"
	}
	return fmt.Sprintf("port space %#x", uint16(ps))
}

// qpType returns the type of QP that the port space stands for. For RDMA_PS_IB the caller
// chooses the type, and RC is the default, as in librdmacm.
func (ps PortSpace) qpType() verbs.QPType {
	if ps == PortSpaceUDP || ps == PortSpaceIPoIB {
		return verbs.UD
	}
	return verbs.RC
}

// check refuses a type of QP that the kernel would silently replace. The kernel has a fixed
// type for every port space except PortSpaceIB.
func (ps PortSpace) check(t verbs.QPType) error {
	if ps != PortSpaceIB && (t == verbs.UD) != (ps.qpType() == verbs.UD) {
		return fmt.Errorf("%v has no QPs of type %v: %w", ps, t, syscall.EINVAL)
	}
	return nil
}

// portSpaceOf returns the port space for a network name of package net.
func portSpaceOf(network string) (PortSpace, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return PortSpaceTCP, nil
	case "udp", "udp4", "udp6":
		return PortSpaceUDP, nil
	}
	return 0, fmt.Errorf("%w: it is tcp, tcp4, tcp6, udp, udp4 or udp6", net.UnknownNetworkError(network))
}
