// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"purerdma/uverbs"
)

// NoGIDError explains why a port has no GID for a local address. It wraps EADDRNOTAVAIL.
type NoGIDError struct {
	Device string
	Port   uint8
	Addr   netip.Addr // requested address. The zero Addr means any
	Reason string
	Have   []GIDEntry // GIDs of the port
}

// Error names the address, the reason, and the GIDs that the port has.
func (e *NoGIDError) Error() string {
	what := "GID"
	if e.Addr.IsValid() {
		what += " for " + e.Addr.String()
	}
	s := fmt.Sprintf("RDMA device %s, port %d: no %s: %s", e.Device, e.Port, what, e.Reason)
	if len(e.Have) == 0 {
		return s
	}
	const most = 8 // a table can have 256
	var have []string
	for _, g := range e.Have[:min(most, len(e.Have))] {
		have = append(have, fmt.Sprintf("%v (%v, index %d)", g.GID, g.Type, g.Index))
	}
	if len(e.Have) > most {
		have = append(have, "...")
	}
	return s + "; it has " + strings.Join(have, ", ")
}

// Unwrap returns EADDRNOTAVAIL.
func (e *NoGIDError) Unwrap() error { return syscall.EADDRNOTAVAIL }

// GIDFor returns the GID by which a QP or an address handle of a port, counted from 1, sends from a
// local address.
//
// On Ethernet it is the GID of type RoCE v2 on the network interface that has the address. For the
// zero Addr it is any GID that peers can reach. Then IPv4 is preferred to IPv6, and a routed IPv6
// address to a link-local one. GIDs of interfaces in other network namespaces are never chosen. On
// InfiniBand it is the first GID of the table. If there is none, the error is a *NoGIDError. On
// iWARP, only the connection manager can connect, and the error wraps errors.ErrUnsupported.
func (d *Device) GIDFor(port uint8, addr netip.Addr) (GIDEntry, error) {
	g, err := d.gidFor(port, addr)
	return g, d.opError("choose GID of", err)
}

func (d *Device) gidFor(port uint8, addr netip.Addr) (GIDEntry, error) {
	if d.Transport() == TransportIWARP {
		return GIDEntry{}, fmt.Errorf("only the connection manager connects on iWARP: %w", errors.ErrUnsupported)
	}
	link := d.LinkLayer(port)
	if link == LinkUnspecified {
		return GIDEntry{}, fmt.Errorf("port %d: %w", port, syscall.EINVAL)
	}
	gids, err := d.GIDs()
	if err != nil {
		return GIDEntry{}, err
	}
	c := gidChoice{port: port, link: link, addr: addr}
	if link == LinkEthernet {
		if c.netdevs, err = d.host.netdevs(); err != nil {
			return GIDEntry{}, err
		}
	}
	g, reason, have := c.choose(gids)
	if reason != "" {
		return GIDEntry{}, &NoGIDError{Device: d.info.Name, Port: port, Addr: addr, Reason: reason, Have: have}
	}
	return g, nil
}

// netdevs are the network interfaces of this network namespace.
func (h *Host) netdevs() ([]uverbs.Interface, error) {
	if k, ok := h.Kernel.(uverbs.Interfaces); ok {
		return k.Interfaces()
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	devs := make([]uverbs.Interface, 0, len(ifs))
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue // removed in the meantime
		}
		d := uverbs.Interface{Index: i.Index, Name: i.Name}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					d.Addrs = append(d.Addrs, ip.Unmap())
				}
			}
		}
		devs = append(devs, d)
	}
	return devs, nil
}

// gidChoice holds the inputs of choosing a GID.
type gidChoice struct {
	port    uint8
	link    LinkLayer
	addr    netip.Addr // with a zone if it has one
	netdevs []uverbs.Interface
}

// choose returns the best GID of a table, or the reason why there is none and the GIDs of the port.
func (c *gidChoice) choose(table []GIDEntry) (best GIDEntry, reason string, have []GIDEntry) {
	for _, g := range table {
		if g.Port == c.port {
			have = append(have, g)
		}
	}
	slices.SortFunc(have, func(a, b GIDEntry) int { return cmp.Compare(a.Index, b.Index) })
	if len(have) == 0 {
		return best, "its GID table is empty: is the network interface up, and in this network namespace?", nil
	}
	var fit []GIDEntry
	for _, g := range have {
		if c.fits(g) {
			fit = append(fit, g)
		}
	}
	if len(fit) == 0 {
		return best, c.reason(have), have
	}
	return slices.MinFunc(fit, func(a, b GIDEntry) int {
		return cmp.Or(cmp.Compare(reach(a.GID), reach(b.GID)), cmp.Compare(a.Index, b.Index))
	}), "", have
}

// reach orders GIDs by the distance at which peers can reach them, the farthest first.
func reach(g GID) int {
	switch a := g.Addr(); {
	case a.Is4():
		return 0
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 1
}

func (c *gidChoice) fits(g GIDEntry) bool {
	if c.addr.IsValid() && g.GID.Addr() != c.plain() {
		return false
	}
	if c.link != LinkEthernet {
		return true
	}
	return g.Type == GIDTypeRoCEv2 && c.here(g)
}

// plain returns the address without its zone, as GIDs have none.
func (c *gidChoice) plain() netip.Addr { return c.addr.WithZone("").Unmap() }

// here reports whether an entry belongs to this network namespace. Interface indices may be the
// same in two namespaces, so the addresses are also compared.
func (c *gidChoice) here(g GIDEntry) bool {
	d := c.netdev(g.Ifindex)
	if d == nil || c.addr.Zone() != "" && c.addr.Zone() != d.Name && c.addr.Zone() != strconv.Itoa(d.Index) {
		return false
	}
	// The table has a link-local GID made of the MAC even if the interface has another such
	// address, or none.
	a := g.GID.Addr()
	return slices.Contains(d.Addrs, a) || a.IsLinkLocalUnicast()
}

func (c *gidChoice) netdev(index int) *uverbs.Interface {
	for i := range c.netdevs {
		if c.netdevs[i].Index == index {
			return &c.netdevs[i]
		}
	}
	return nil
}

// reason explains why none of the port's entries fits.
func (c *gidChoice) reason(have []GIDEntry) string {
	if c.link != LinkEthernet {
		return "no entry of the table has it"
	}
	v2, here := false, ""
	for _, g := range have {
		if g.Type != GIDTypeRoCEv2 {
			continue
		}
		v2 = true
		if d := c.netdev(g.Ifindex); d != nil {
			here = d.Name
		}
	}
	switch {
	case !v2:
		return "none of its GIDs is of type RoCE v2"
	case here == "":
		return "its network interface is in another network namespace"
	case !c.addr.IsValid():
		return "none of its GIDs is an address that " + here + " has now"
	}
	for _, d := range c.netdevs {
		switch {
		case !slices.Contains(d.Addrs, c.plain()):
		case d.Name == here:
			return here + " has the address, but the GID table has not, or not yet"
		default:
			return "it is an address of " + d.Name + ", the device belongs to " + here
		}
	}
	return "this network namespace has no such address; the device belongs to " + here
}
