// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net/netip"
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
