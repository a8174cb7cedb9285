// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"purerdma/abi"
	"purerdma/ucma"
)

// Addr is an address of the connection manager: an IP address and a port of the
// RDMA port space, which is not the port space of the TCP stack. The zero Addr
// is no address. It implements net.Addr.
type Addr struct {
	netip.AddrPort
}

// Network returns "rdma".
func (a Addr) Network() string { return "rdma" }

// String returns the address as "10.8.0.1:7471" or "[fe80::1%eth0]:7471", and ""
// for the zero Addr.
func (a Addr) String() string {
	if !a.IsValid() {
		return ""
	}
	return a.AddrPort.String()
}

// AddrFrom returns the Addr of an IP address and port.
func AddrFrom(ap netip.AddrPort) Addr { return Addr{ap} }

// ParseAddr parses an IP address and port, such as "10.8.0.1:7471".
func ParseAddr(s string) (Addr, error) {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Addr{}, &net.AddrError{Err: "not an IP address and port", Addr: s}
	}
	return Addr{ap}, nil
}

func addrFromKernel(sa *abi.SockaddrStorage) Addr {
	ap, _ := ucma.DecodeSockaddr(sa)
	return Addr{ap}
}

// lookup resolves "host:port" with Go's resolver. network is "tcp", "tcp4" or
// "tcp6", naming the port space (RDMA_PS_TCP) and the family. For a listener an
// empty host is the wildcard address.
func lookup(ctx context.Context, network, address string, listen bool) (Addr, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return Addr{}, net.UnknownNetworkError(network)
	}
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
		if network == "tcp4" {
			ip = netip.IPv4Unspecified()
		}
		return Addr{netip.AddrPortFrom(ip, uint16(port))}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() != "" && network != "tcp4" {
		// The resolver would lose the zone.
		return Addr{netip.AddrPortFrom(ip, uint16(port))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+strings.TrimPrefix(network, "tcp"), host)
	if err != nil {
		return Addr{}, err
	}
	if len(ips) == 0 {
		return Addr{}, &net.AddrError{Err: "no suitable address", Addr: address}
	}
	// LookupNetIP answers IPv4 addresses in IPv6 form. Like package net, prefer
	// IPv4 where the name has both.
	best := ips[0].Unmap()
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			best = ip
			break
		}
	}
	return Addr{netip.AddrPortFrom(best, uint16(port))}, nil
}

var errNoAddr = errors.New("missing address")
