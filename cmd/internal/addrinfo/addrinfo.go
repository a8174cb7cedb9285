// SPDX-License-Identifier: Apache-2.0

// Package addrinfo implements rdma_getaddrinfo(3) for the programs with the options and output
// of rdma-core's programs. Other programs resolve names with package cm, which uses Go's
// resolver.
//
// Its answers equal librdmacm's on a host without ibacm, including addresses and ports that
// only C accepts, such as "0177.1" and "+80". `make addrinfo` records them.
package addrinfo

import (
	"context"
	"fmt"
	"syscall"

	"purerdma/cm"
	"purerdma/verbs"
)

// Flags are the flags of hints and of answers (RAI_*, rdma_cma.h).
type Flags uint32

// Flags of hints. Answers only have Passive. RAI_NOROUTE (4) and RAI_DNS (32) change nothing
// here. RAI_SA (16) is rejected: see [cm.ID.ResolveIBService].
const (
	// Passive requests an address to listen on (RAI_PASSIVE).
	Passive Flags = 1
	// NumericHost forbids the look-up of names (RAI_NUMERICHOST).
	NumericHost Flags = 2
	// HasFamily sets the family of the node (RAI_FAMILY). With IB and NumericHost the node is a
	// GID. Other families apply even without HasFamily.
	HasFamily Flags = 8
)

const flagSA Flags = 16 // RAI_SA

// Family is an address family (AF_*, sys/socket.h), with Linux's numbers.
type Family uint16

// The address families of the connection manager.
const (
	Any  Family = 0
	IPv4 Family = 2
	IPv6 Family = 10
	IB   Family = 27
)

// Info contains the addresses to connect to or to listen on (struct rdma_addrinfo).
type Info struct {
	Flags     Flags // Passive or 0
	Family    Family
	QPType    verbs.QPType // 0 if not known
	PortSpace cm.PortSpace // 0 if not known
	// SrcAddr is the local address. With Passive it is the address to listen on. Otherwise it
	// is zero or the hints' address.
	SrcAddr cm.Addr
	// DstAddr is the peer's address, zero with Passive.
	DstAddr cm.Addr
}

// Hints restrict the answer of Lookup. A zero field is no restriction.
type Hints struct {
	Flags     Flags
	Family    Family
	QPType    verbs.QPType
	PortSpace cm.PortSpace
	// SrcAddr becomes the answer's SrcAddr if the answer has none.
	SrcAddr cm.Addr
	// DstAddr is used if there is neither a node nor a service.
	DstAddr cm.Addr
}

// Lookup resolves the address of a node and a service like rdma_getaddrinfo(3) on a host
// without ibacm. The answer has no route and never more than one address.
//
// node is a host name or a numeric address. service is a name or a port number. Either may be
// empty. An empty node means this host, and with Passive all its addresses. If both are empty,
// the hints are the answer. The first address of a name is used, in the order of RFC 6724.
//
// Go's resolver resolves host names, in the process's network namespace, until ctx ends. The
// error wraps an EAI where getaddrinfo(3) returns one, and syscall.EINVAL without any input.
// Lookup rejects two inputs that librdmacm accepts. These are port numbers above 65535, of
// which librdmacm uses the lower 16 bits, and IPv4 addresses as GIDs, for which it reads beyond
// the address.
func Lookup(ctx context.Context, node, service string, hints *Hints) (Info, error) {
	return systemResolver.lookup(ctx, node, service, hints)
}

func (r *resolver) lookup(ctx context.Context, node, service string, hints *Hints) (Info, error) {
	info, err := r.answer(ctx, node, service, hints)
	if err != nil {
		return Info{}, fmt.Errorf("node %q, service %q: %w", node, service, err)
	}
	return info, nil
}

func (r *resolver) answer(ctx context.Context, node, service string, hints *Hints) (Info, error) {
	if hints == nil {
		if node == "" && service == "" {
			return Info{}, fmt.Errorf("no node, service or address in the hints: %w", syscall.EINVAL)
		}
		hints = &Hints{}
	}
	if hints.Flags&flagSA != 0 {
		return Info{}, fmt.Errorf("RAI_SA: %w", syscall.EOPNOTSUPP)
	}
	info := Info{QPType: hints.QPType, PortSpace: hints.PortSpace}
	if node == "" && service == "" {
		info.Flags, info.Family, info.DstAddr = hints.Flags, hints.Family, hints.DstAddr
	} else if err := r.resolve(ctx, node, service, hints, &info); err != nil {
		return Info{}, err
	}
	if !info.SrcAddr.IsValid() {
		info.SrcAddr = hints.SrcAddr
	}
	return info, nil
}

// resolve completes info from node and service.
func (r *resolver) resolve(ctx context.Context, node, service string, hints *Hints, info *Info) error {
	// glibc treats a star as an empty string.
	if node == "*" {
		node = ""
	}
	if service == "*" {
		service = ""
	}
	if node == "" && service == "" {
		return NoName
	}
	family := hints.Family
	switch family {
	case IB:
		family = Any
	case Any, IPv4, IPv6:
	default:
		return BadFamily
	}
	protocol, port, err := r.service(ctx, service, hints.QPType, hints.PortSpace)
	if err != nil {
		return err
	}
	ip, err := r.node(ctx, node, family, hints.Flags)
	if err != nil {
		return err
	}
	if info.QPType == 0 {
		info.QPType = protocol.qpType
	}
	if info.PortSpace == 0 {
		info.PortSpace = protocol.portSpace
	}
	const gid = HasFamily | NumericHost
	var addr cm.Addr
	if hints.Family == IB && hints.Flags&gid == gid {
		info.Family = IB
		addr, err = gidAddr(ip, info.PortSpace, port)
	} else {
		info.Family = familyOf(ip)
		addr = ipAddr(ip, port)
	}
	if hints.Flags&Passive != 0 {
		info.Flags, info.SrcAddr = Passive, addr
	} else {
		info.DstAddr = addr
	}
	return err
}
