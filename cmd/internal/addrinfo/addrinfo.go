// SPDX-License-Identifier: Apache-2.0

// Package addrinfo is rdma_getaddrinfo(3) for the programs that have the options and the
// output of rdma-core's. Programs of one's own resolve names with package cm, which uses Go's
// resolver.
//
// Its answers are librdmacm's on a host without ibacm, including the forms of addresses and
// ports that only C takes, such as "0177.1" and "+80". `make addrinfo` records them.
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

// Flags of hints. Answers have Passive only. RAI_NOROUTE (4) and RAI_DNS (32) change nothing
// here. RAI_SA (16) is refused: see [cm.ID.ResolveIBService].
const (
	// Passive asks for an address to listen on (RAI_PASSIVE).
	Passive Flags = 1
	// NumericHost forbids the look-up of names (RAI_NUMERICHOST).
	NumericHost Flags = 2
	// HasFamily says how to read the node (RAI_FAMILY): with IB and NumericHost it is a GID.
	// Other families count without it, too.
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

// Info has the addresses to connect to or to listen on (struct rdma_addrinfo).
type Info struct {
	Flags     Flags // Passive, or nothing
	Family    Family
	QPType    verbs.QPType // 0 if not known
	PortSpace cm.PortSpace // 0 if not known
	// SrcAddr is the local address: with Passive the one to listen on, else zero, or that
	// of the hints.
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
	// SrcAddr becomes the answer's if the answer has none of its own.
	SrcAddr cm.Addr
	// DstAddr counts if there is neither node nor service.
	DstAddr cm.Addr
}

// Lookup finds the address for a node and a service, as rdma_getaddrinfo(3) does on a host
// where no ibacm runs: without a route, and never more than one.
//
// node is a host name or a numeric address, service a name or a port number; either may be
// empty. Without a node it is this host, and with Passive all its addresses. Without either
// the hints are the answer. The first address of a name counts, in the order of RFC 6724.
//
// Host names go to Go's resolver, in the process's network namespace; ctx bounds that. The
// error wraps an EAI where getaddrinfo(3) returns one, and syscall.EINVAL if there is nothing to go
// by. librdmacm also takes port numbers above 65535, of which it uses the lower 16 bits, and
// IPv4 addresses as GIDs, for which it sends bytes from beyond the address. Lookup refuses
// both.
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
			return Info{}, fmt.Errorf("neither they nor hints are given: %w", syscall.EINVAL)
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
	// glibc takes a star for an empty string.
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
