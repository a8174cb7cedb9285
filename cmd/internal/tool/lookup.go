// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"fmt"
	"net/netip"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

// LookupHost returns the first address of a host, like getaddrinfo(3). Its error wraps an
// addrinfo.EAI.
func LookupHost(ctx context.Context, host string) (netip.Addr, error) {
	if host == "" {
		return netip.Addr{}, fmt.Errorf("no host: %w", addrinfo.NoName)
	}
	info, err := addrinfo.Lookup(ctx, host, "", nil)
	if err != nil {
		return netip.Addr{}, err
	}
	return info.DstAddr.Addr(), nil
}

// Names contains the addresses from a command line, as written.
type Names struct {
	Source  string // address to bind to, may be ""
	Dest    string // address of the server, "" on the server
	Service string // the port, a number or a name
	Format  Format
	Space   cm.PortSpace
}

// Resolve resolves the addresses. A client binds to local, which may be zero, and connects to
// remote. A server has no Dest. It listens on local, which without a Source is the IPv4
// wildcard. The error wraps an addrinfo.EAI.
func (n *Names) Resolve(ctx context.Context) (local, remote cm.Addr, err error) {
	hints := addrinfo.Hints{PortSpace: n.Space}
	switch n.Format {
	case FormatNumeric:
		hints.Flags = addrinfo.NumericHost
	case FormatGID:
		hints.Flags, hints.Family = addrinfo.NumericHost|addrinfo.HasFamily, addrinfo.IB
	}
	passive := hints
	passive.Flags |= addrinfo.Passive
	if n.Dest == "" {
		info, err := addrinfo.Lookup(ctx, n.Source, n.Service, &passive)
		if err != nil {
			return local, remote, err
		}
		return info.SrcAddr, remote, nil
	}
	if n.Source != "" {
		info, err := addrinfo.Lookup(ctx, n.Source, "", &passive)
		if err != nil {
			return local, remote, err
		}
		local = info.SrcAddr
	}
	info, err := addrinfo.Lookup(ctx, n.Dest, n.Service, &hints)
	if err != nil {
		return local, remote, err
	}
	return local, info.DstAddr, nil
}
