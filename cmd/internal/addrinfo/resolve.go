// SPDX-License-Identifier: Apache-2.0

package addrinfo

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"purerdma/cm"
	"purerdma/ucma"
	"purerdma/verbs"
)

// resolver contains the system's part of getaddrinfo(3).
type resolver struct {
	lookupPort  func(ctx context.Context, network, service string) (int, error)
	lookupNetIP func(ctx context.Context, network, host string) ([]netip.Addr, error)
	hasIPv6     func() bool // whether the loopback interface has IPv6
}

var systemResolver = &resolver{
	lookupPort:  net.DefaultResolver.LookupPort,
	lookupNetIP: net.DefaultResolver.LookupNetIP,
	hasIPv6: func() bool {
		// No packet is sent.
		c, err := net.Dial("udp6", "[::1]:9")
		if err == nil {
			c.Close()
		}
		return err == nil
	},
}

// protocol is a row of getaddrinfo's table of socket types.
type protocol struct {
	network   string
	qpType    verbs.QPType
	portSpace cm.PortSpace
}

var protocols = [...]protocol{
	{"tcp", verbs.RC, cm.PortSpaceTCP},
	{"udp", verbs.UD, cm.PortSpaceUDP},
}

// networkOfQP returns the network of package net for a type of QP, "" for any.
func networkOfQP(t verbs.QPType) string {
	switch t {
	case verbs.RC, verbs.UC, verbs.XRCSend, verbs.XRCRecv:
		return "tcp"
	case verbs.UD:
		return "udp"
	}
	return ""
}

func networkOfPortSpace(ps cm.PortSpace) string {
	switch ps {
	case cm.PortSpaceTCP:
		return "tcp"
	case cm.PortSpaceUDP, cm.PortSpaceIPoIB:
		return "udp"
	}
	return ""
}

// service returns the protocol and the port. If the hints leave the protocol open, it looks up
// a name in each protocol in turn.
func (r *resolver) service(ctx context.Context, service string, t verbs.QPType, ps cm.PortSpace) (protocol, uint16, error) {
	byType, bySpace := networkOfQP(t), networkOfPortSpace(ps)
	if byType != "" && bySpace != "" && byType != bySpace {
		return protocol{}, 0, QPType
	}
	number, numeric, err := parsePort(service)
	if err != nil {
		return protocol{}, 0, err
	}
	for _, p := range protocols {
		if byType != "" && byType != p.network || bySpace != "" && bySpace != p.network {
			continue
		}
		if numeric {
			return p, number, nil
		}
		port, err := r.lookupPort(ctx, p.network, service)
		if err == nil {
			return p, uint16(port), nil
		}
	}
	return protocol{}, 0, Service
}

// parsePort parses a number like strtoul(3), with leading spaces and a sign. An empty service
// is port 0.
func parsePort(s string) (port uint16, numeric bool, err error) {
	if s == "" {
		return 0, true, nil
	}
	digits := strings.TrimPrefix(strings.TrimLeft(s, " \t\n\v\f\r"), "+")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0, true, fmt.Errorf("%w: a port has 16 bits", Service)
	}
	return uint16(n), true, nil
}

// node returns the node's address in a family, or in any family.
func (r *resolver) node(ctx context.Context, node string, family Family, flags Flags) (netip.Addr, error) {
	if node == "" {
		return r.noNode(family, flags&Passive != 0), nil
	}
	if ip, ok := parseIPv4(node); ok {
		if family == IPv6 {
			return netip.Addr{}, AddrFamily
		}
		return ip, nil
	}
	if ip, err := netip.ParseAddr(node); err == nil && ip.Is6() {
		switch {
		case !validZone(ip):
			return netip.Addr{}, NoName
		case family == IPv4 && !ip.Is4In6():
			return netip.Addr{}, AddrFamily
		case family == IPv4:
			ip = ip.Unmap()
		}
		return ip, nil
	}
	if flags&NumericHost != 0 {
		return netip.Addr{}, NoName
	}
	network := "ip"
	switch family {
	case IPv4:
		network = "ip4"
	case IPv6:
		network = "ip6"
	}
	ips, err := r.lookupNetIP(ctx, network, node)
	if err != nil {
		return netip.Addr{}, eaiOf(err)
	}
	if len(ips) == 0 {
		return netip.Addr{}, NoName
	}
	return ips[0].Unmap(), nil
}

// noNode returns the address of this host to listen on or to connect to.
func (r *resolver) noNode(family Family, passive bool) netip.Addr {
	switch {
	case passive && family == IPv6:
		return netip.IPv6Unspecified()
	case passive:
		return netip.IPv4Unspecified()
	case family == IPv6, family == Any && r.hasIPv6():
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// validZone reports whether getaddrinfo(3) accepts an address's zone. It accepts names only for
// addresses with link scope.
func validZone(ip netip.Addr) bool {
	zone := ip.Zone()
	if zone == "" {
		return true
	}
	if !ip.IsLinkLocalUnicast() && !ip.IsLinkLocalMulticast() && strings.Trim(zone, "0123456789") != "" {
		return false
	}
	_, err := ucma.ScopeID(zone)
	return err == nil
}

// parseIPv4 parses an IPv4 address like inet_aton(3). It has one to four numbers, decimal,
// octal or hexadecimal. The last number fills the remaining bytes.
func parseIPv4(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var a uint32
	for i, p := range parts {
		base, digits := cBase(p)
		bits := 8
		if i == len(parts)-1 {
			bits = 32 - 8*i
		}
		n, err := strconv.ParseUint(digits, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		a |= uint32(n) << (32 - 8*i - bits)
	}
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), true
}

// cBase returns the base of a number in C syntax, and its digits for ParseUint, which then
// accepts no sign, underscore or other prefix.
func cBase(s string) (base int, digits string) {
	switch {
	case strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X"):
		return 16, s[2:]
	case strings.HasPrefix(s, "0"):
		return 8, s
	}
	return 10, s
}

func familyOf(ip netip.Addr) Family {
	if ip.Is4() {
		return IPv4
	}
	return IPv6
}

func ipAddr(ip netip.Addr, port uint16) cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(ip, port)) }

// gidAddr converts an address written like IPv6 into an address of InfiniBand.
func gidAddr(ip netip.Addr, ps cm.PortSpace, port uint16) (cm.Addr, error) {
	if ip.Is4() {
		if !ip.IsUnspecified() {
			return cm.Addr{}, AddrFamily
		}
		ip = netip.IPv6Unspecified()
	}
	a := cm.AddrFromGID(ip.As16(), ps, port)
	scope, err := ucma.ScopeID(ip.Zone())
	a.IB.ScopeID = uint64(scope)
	return a, err
}
