// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"purerdma/cm"
)

// LookupHost finds the address of a host as getaddrinfo(3) does: the first one.
// Its error wraps a cm.EAI.
func LookupHost(ctx context.Context, host string) (netip.Addr, error) {
	if host == "" {
		return netip.Addr{}, fmt.Errorf("no host: %w", cm.EAINoName)
	}
	info, err := cm.LookupAddrInfo(ctx, host, "", nil)
	if err != nil {
		return netip.Addr{}, err
	}
	return info[0].DstAddr.Addr(), nil
}

// lookupTexts are those of gai_strerror(3).
var lookupTexts = map[cm.EAI]string{
	cm.EAINoName:     "Name or service not known",
	cm.EAIAgain:      "Temporary failure in name resolution",
	cm.EAIFail:       "Non-recoverable failure in name resolution",
	cm.EAIFamily:     "ai_family not supported",
	cm.EAIQPType:     "ai_socktype not supported",
	cm.EAIService:    "Servname not supported for ai_socktype",
	cm.EAIAddrFamily: "Address family for hostname not supported",
}

// LookupText returns what gai_strerror(3) says of a failed look-up, or the error's
// own words.
func LookupText(err error) string {
	if code, ok := errors.AsType[cm.EAI](err); ok && lookupTexts[code] != "" {
		return lookupTexts[code]
	}
	return err.Error()
}

// Names are the addresses that a program was given, as they were written.
type Names struct {
	Source  string // to bind to, may be ""
	Dest    string // of the server; "" on the server itself
	Service string // the port, a number or a name
	Format  Format
	Space   cm.PortSpace
}

// Resolve finds the addresses. A client binds to local, which may be zero, and
// connects to remote; a server, which has no Dest, listens on local: without a
// Source on every address of IPv4. The error wraps a cm.EAI.
func (n *Names) Resolve(ctx context.Context) (local, remote cm.Addr, err error) {
	hints := cm.AddrInfoHints{PortSpace: n.Space}
	switch n.Format {
	case FormatNumeric:
		hints.Flags = cm.AddrInfoNumericHost
	case FormatGID:
		hints.Flags, hints.Family = cm.AddrInfoNumericHost|cm.AddrInfoFamily, cm.FamilyIB
	}
	passive := hints
	passive.Flags |= cm.AddrInfoPassive
	if n.Dest == "" {
		info, err := cm.LookupAddrInfo(ctx, n.Source, n.Service, &passive)
		if err != nil {
			return local, remote, err
		}
		return info[0].SrcAddr, remote, nil
	}
	if n.Source != "" {
		info, err := cm.LookupAddrInfo(ctx, n.Source, "", &passive)
		if err != nil {
			return local, remote, err
		}
		local = info[0].SrcAddr
	}
	info, err := cm.LookupAddrInfo(ctx, n.Dest, n.Service, &hints)
	if err != nil {
		return local, remote, err
	}
	return local, info[0].DstAddr, nil
}
