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

// Addr is an address of the connection manager: an IP address and a port of the
// RDMA port space, which is not the port space of the TCP stack, or an address of
// InfiniBand. The zero Addr is no address. Addrs can be compared with ==. It
// implements net.Addr.
//
// The zone of an IPv6 address is the name or the number of an interface; in an
// address that the kernel tells it is the number. An IPv4 address in IPv6 form
// ("::ffff:10.8.0.1") is one of IPv6, for Listen and Resolve as for librdmacm, but
// for one of two that are to be of one family ([Dialer.LocalAddr], [ID.ResolveAddr]).
type Addr struct {
	netip.AddrPort
	// IB is the address if it is one of InfiniBand (AF_IB); AddrPort is then
	// zero.
	IB IBAddr
}

// IsValid reports whether a is an address: of IP, or of InfiniBand.
func (a Addr) IsValid() bool { return a.isIB() || a.AddrPort.IsValid() }

func (a Addr) isIB() bool { return a.IB != IBAddr{} }

// Port returns the port, that of the service ID if the address is one of
// InfiniBand.
func (a Addr) Port() uint16 {
	if a.isIB() {
		return a.IB.Port()
	}
	return a.AddrPort.Port()
}

// Network returns "rdma", or "ib" for an address of InfiniBand.
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

// MarshalText returns what String does.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// AppendText appends what String returns.
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

// lookup resolves "host:port" with Go's resolver. network names the port space
// and the family, as "tcp", "tcp4", "tcp6" or "udp", "udp4", "udp6". For a listener
// an empty host is the wildcard address. Of the addresses of a name it takes one of
// the family of local, if that is given.
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
	family := strings.TrimLeft(network, "tcpud")
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return Addr{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return Addr{}, err
	}
	if host == "" {
		if !listen {
			return Addr{}, &net.AddrError{Err: "missing host", Addr: address}
		}
		// The IPv6 wildcard takes IPv4 requests, too, unless the host's
		// net.ipv6.bindv6only forbids it.
		ip := netip.IPv6Unspecified()
		if family == "4" {
			ip = netip.IPv4Unspecified()
		}
		return AddrFrom(netip.AddrPortFrom(ip, uint16(port))), nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && family != "4" {
		// The resolver would lose the zone, and make an IPv4 address of one in
		// IPv6 form.
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

// choose takes one of the addresses of a name, in which LookupNetIP has IPv4 in IPv6
// form: the first of the family of local or, like package net, of IPv4.
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

// IBAddr is an address of InfiniBand (struct sockaddr_ib, infiniband/ib.h): the
// GID of a port and a service ID. The zero IBAddr is no address.
type IBAddr = ucma.IBAddr

// defaultPKey is the partition that every port is a full member of.
const defaultPKey = 0xffff

// AddrFromGID returns the address that librdmacm makes of a GID and a port
// (rdma_getaddrinfo(3) with AF_IB): in the default partition, at the service ID of
// that port in a port space. Port 0 and port space 0 are any.
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

// Which bits of a service ID are the port space and which the port
// (RDMA_IB_IP_PS_MASK and RDMA_IB_IP_PORT_MASK, rdma_cma.h).
const (
	ibPortSpaceMask = 0xffffffffffff0000
	ibPortMask      = 0xffff
)

// family returns the name of the family that an address is of to the kernel.
func (a Addr) family() string {
	switch {
	case a.isIB():
		return "InfiniBand"
	case a.Addr().Is4():
		return "IPv4"
	}
	return "IPv6"
}

// unmapped returns an IPv4 address in IPv6 form as the one of IPv4 that it is, and any
// other address as it is.
func (a Addr) unmapped() Addr {
	if a.Addr().Is4In6() {
		a.AddrPort = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return a
}

// oneFamily checks that two addresses are of one family, if both are given. An IPv4
// address in IPv6 form, as net.TCPAddr makes them, is one of IPv4 beside another of
// IPv4: the kernel would refuse the two.
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

// PortSpace is what a port number means, and with it the kind of QP behind an ID
// (enum rdma_port_space, rdma_cma.h).
type PortSpace uint16

// The port spaces. Each has port numbers of its own; none of them are those of
// the TCP/IP stack.
const (
	// PortSpaceTCP is the space of reliable connections (RDMA_PS_TCP).
	PortSpaceTCP PortSpace = abi.RDMA_PS_TCP
	// PortSpaceUDP is the space of datagrams, and of multicast (RDMA_PS_UDP).
	PortSpaceUDP PortSpace = abi.RDMA_PS_UDP
	// PortSpaceIPoIB is that of datagrams that share the multicast groups and the
	// queue key of IP over InfiniBand (RDMA_PS_IPOIB).
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

// qpType returns the type of QP that the port space stands for. That of
// RDMA_PS_IB is the caller's to say; RC is what librdmacm takes.
func (ps PortSpace) qpType() verbs.QPType {
	if ps == PortSpaceUDP || ps == PortSpaceIPoIB {
		return verbs.UD
	}
	return verbs.RC
}

// check refuses a type of QP that the kernel would not take, but quietly replace:
// it has one of its own for every port space but PortSpaceIB.
func (ps PortSpace) check(t verbs.QPType) error {
	if ps != PortSpaceIB && (t == verbs.UD) != (ps.qpType() == verbs.UD) {
		return fmt.Errorf("%v has no QPs of type %v: %w", ps, t, syscall.EINVAL)
	}
	return nil
}

// portSpaceOf returns the port space that a name of package net stands for.
func portSpaceOf(network string) (PortSpace, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return PortSpaceTCP, nil
	case "udp", "udp4", "udp6":
		return PortSpaceUDP, nil
	}
	return 0, fmt.Errorf("%w: it is tcp, tcp4, tcp6, udp, udp4 or udp6", net.UnknownNetworkError(network))
}
