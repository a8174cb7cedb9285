// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// AddrInfoFlags says what LookupAddrInfo is to do, and what an AddrInfo is for
// (RAI_*, rdma_cma.h; rdma_getaddrinfo(3)).
type AddrInfoFlags uint32

// Flags of hints and, AddrInfoPassive alone, of answers.
const (
	// AddrInfoPassive asks for an address to listen on (RAI_PASSIVE).
	AddrInfoPassive AddrInfoFlags = 1 << iota
	// AddrInfoNumericHost forbids the look-up of names (RAI_NUMERICHOST).
	AddrInfoNumericHost
	// AddrInfoNoRoute forbids lengthy look-ups of a route (RAI_NOROUTE). There
	// are none here: it changes nothing.
	AddrInfoNoRoute
	// AddrInfoFamily says how to read the node (RAI_FAMILY): with FamilyIB and
	// AddrInfoNumericHost it is a GID. Other families count without it, too.
	AddrInfoFamily
	// AddrInfoSA asks the subnet administrators of InfiniBand fabrics for a
	// service, by its ID or its name, instead of a name server (RAI_SA, since rdma-core
	// 61). It takes a service alone, and a kernel that has ResolveIBService.
	AddrInfoSA
	// AddrInfoDNS asks for the look-up of names, which is what is done without
	// it, too (RAI_DNS).
	AddrInfoDNS
)

// AddrFamily is an address family (AF_*, sys/socket.h).
type AddrFamily uint16

// The address families of the connection manager.
const (
	FamilyAny  AddrFamily = 0 // AF_UNSPEC
	FamilyIPv4 AddrFamily = abi.AF_INET
	FamilyIPv6 AddrFamily = abi.AF_INET6
	FamilyIB   AddrFamily = abi.AF_IB
)

// String returns "IPv4", "IPv6" or "InfiniBand", and "any" for FamilyAny.
func (f AddrFamily) String() string {
	switch f {
	case FamilyAny:
		return "any"
	case FamilyIPv4:
		return "IPv4"
	case FamilyIPv6:
		return "IPv6"
	case FamilyIB:
		return "InfiniBand"
	}
	return fmt.Sprintf("address family %d", uint16(f))
}

// AddrInfo is what it takes to connect or to listen (struct rdma_addrinfo,
// rdma_cma.h; rdma_getaddrinfo(3)). It is plain data and the caller's.
type AddrInfo struct {
	Flags     AddrInfoFlags // AddrInfoPassive or AddrInfoSA, or nothing
	Family    AddrFamily
	QPType    verbs.QPType // 0 if not known
	PortSpace PortSpace    // 0 if not known
	// SrcAddr is the local address: with AddrInfoPassive the one to listen on,
	// else zero, or that of the hints.
	SrcAddr Addr
	// DstAddr is the peer's, zero with AddrInfoPassive.
	DstAddr Addr
	// SrcCanonName and DstCanonName are the hosts' canonical names. Like
	// librdmacm, LookupAddrInfo does not ask for them.
	SrcCanonName, DstCanonName string
	// Route are the paths to take instead of asking for them (ai_route). Connect
	// is data that goes to the peer before the user's private data (ai_connect).
	// Only ibacm gives them, so LookupAddrInfo does not.
	Route   []Path
	Connect []byte
}

// AddrInfoHints narrow down what LookupAddrInfo answers; zero fields do not.
type AddrInfoHints struct {
	Flags     AddrInfoFlags
	Family    AddrFamily
	QPType    verbs.QPType
	PortSpace PortSpace
	// SrcAddr becomes that of an answer that has none of its own.
	SrcAddr Addr
	// DstAddr counts if there is neither node nor service.
	DstAddr Addr
}

// LookupAddrInfo finds the addresses for a node and a service, as
// rdma_getaddrinfo(3) does on a host where no ibacm runs: no route comes with
// them, and never more than one answer, but for AddrInfoSA. (What ibacm would add is its cache of
// routes in an InfiniBand subnet.)
//
// node is a host name or a numeric address, service a name or a port number;
// either may be empty. Without a node it is this host, and with AddrInfoPassive all its
// addresses; without either the hints are the answer. Of several addresses of a
// name the first counts, in the order of RFC 6724.
//
// Host names go to Go's resolver, in the process's network namespace; ctx bounds
// that. The error wraps an EAI as far as getaddrinfo(3) has one, and
// syscall.EINVAL if there is nothing to go by. What librdmacm takes and this does
// not: port numbers above 65535, of which it uses the lower 16 bits, and IPv4
// addresses as GIDs, for which it sends bytes from beyond the address.
func LookupAddrInfo(ctx context.Context, node, service string, hints *AddrInfoHints) ([]AddrInfo, error) {
	cdev.NeedContext(ctx)
	if hints != nil && hints.Flags&AddrInfoSA != 0 {
		return lookupSA(ctx, node, service, hints)
	}
	info, err := systemResolver.addrInfo(ctx, node, service, hints)
	if err != nil {
		return nil, &OpError{Op: opAddrInfo, Err: err}
	}
	return []AddrInfo{info}, nil
}

func lookupSA(ctx context.Context, node, service string, hints *AddrInfoHints) ([]AddrInfo, error) {
	var infos []AddrInfo
	var err error
	switch {
	case node != "":
		err = fmt.Errorf("AddrInfoSA takes no node: %w", syscall.EOPNOTSUPP)
	case hints.Flags&AddrInfoDNS != 0:
		err = fmt.Errorf("AddrInfoSA and AddrInfoDNS exclude each other: %w", syscall.EOPNOTSUPP)
	case service == "":
		err = fmt.Errorf("AddrInfoSA takes a service: %w", syscall.EINVAL)
	default:
		infos, err = saAddrInfo(ctx, verbs.DefaultHost(), service)
	}
	if err != nil {
		return nil, &OpError{Op: opAddrInfo, Err: addrInfoError(node, service, err)}
	}
	return infos, nil
}

// opAddrInfo is the operation of errors of LookupAddrInfo.
const opAddrInfo = "look up address info"

func (r *resolver) addrInfo(ctx context.Context, node, service string, hints *AddrInfoHints) (AddrInfo, error) {
	if hints == nil {
		if node == "" && service == "" {
			return AddrInfo{}, addrInfoError("", "", fmt.Errorf("neither they nor hints are given: %w", syscall.EINVAL))
		}
		hints = &AddrInfoHints{}
	}
	info := AddrInfo{QPType: hints.QPType, PortSpace: hints.PortSpace}
	if node == "" && service == "" {
		info.Flags, info.Family, info.DstAddr = hints.Flags, hints.Family, hints.DstAddr
	} else if err := r.resolve(ctx, node, service, hints, &info); err != nil {
		if ctx.Err() == nil {
			err = addrInfoError(node, service, err)
		}
		return AddrInfo{}, err
	}
	if !info.SrcAddr.IsValid() {
		info.SrcAddr = hints.SrcAddr
	}
	return info, nil
}

// resolve completes info from node and service.
func (r *resolver) resolve(ctx context.Context, node, service string, hints *AddrInfoHints, info *AddrInfo) error {
	// To glibc a star is as good as nothing.
	if node == "*" {
		node = ""
	}
	if service == "*" {
		service = ""
	}
	if node == "" && service == "" {
		return EAINoName
	}
	family := hints.Family
	switch family {
	case FamilyIB:
		family = FamilyAny
	case FamilyAny, FamilyIPv4, FamilyIPv6:
	default:
		return EAIFamily
	}
	protocol, port, err := r.service(ctx, service, hints.QPType, hints.PortSpace)
	if err != nil {
		return err
	}
	passive := hints.Flags&AddrInfoPassive != 0
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
	const gid = AddrInfoFamily | AddrInfoNumericHost
	var addr Addr
	if hints.Family == FamilyIB && hints.Flags&gid == gid {
		info.Family = FamilyIB
		addr, err = gidAddr(ip, info.PortSpace, port)
	} else {
		info.Family = familyOf(ip)
		addr = ipAddr(ip, port)
	}
	if passive {
		info.Flags, info.SrcAddr = AddrInfoPassive, addr
	} else {
		info.DstAddr = addr
	}
	return err
}
