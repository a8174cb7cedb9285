// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// wireTable is the routing table with the routes over the wire.
const wireTable = 200

// routeOverWire makes two devices of one network namespace communicate over their cable. The
// table "local" contains the namespace's own addresses, and the kernel searches it first.
// Packets for the other end would therefore never leave through a device. These rules restrict
// that table to packets that arrive over the wire. For outgoing packets the kernel first
// searches the table with the routes over the wire.
//
// Two network namespaces would be the natural solution, but before Linux 7 the rxe driver
// listens only in the initial one.
func routeOverWire(ends [2]end) error {
	for _, dev := range []string{"all", ends[0].netdev, ends[1].netdev} {
		for name, value := range map[string]string{"accept_local": "1", "rp_filter": "0"} {
			if err := sysctl("net/ipv4/conf/"+dev+"/"+name, value); err != nil {
				return err
			}
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for i, e := range ends {
			if err := addRule(family, i+1, e.netdev, unix.RT_TABLE_LOCAL); err != nil {
				return err
			}
		}
		if err := addRule(family, 10, "", wireTable); err != nil {
			return err
		}
		if err := addRule(family, 100, "", unix.RT_TABLE_LOCAL); err != nil {
			return err
		}
		if err := deleteFirstRule(family); err != nil {
			return err
		}
	}
	for i, e := range ends {
		peer := ends[1-i]
		for _, r := range []struct{ src, dst netip.Addr }{
			{e.v4.Addr(), peer.v4.Addr()},
			{e.v6.Addr(), peer.v6.Addr()},
		} {
			if err := addRoute(e.netdev, r.src, r.dst); err != nil {
				return err
			}
		}
	}
	return nil
}

// addRoute routes dst through netdev.
func addRoute(netdev string, src, dst netip.Addr) error {
	link, err := netlink.LinkByName(netdev)
	if err != nil {
		return err
	}
	err = netlink.RouteAdd(&netlink.Route{
		LinkIndex: link.Attrs().Index,
		Dst:       host(dst),
		Src:       src.AsSlice(),
		Scope:     netlink.SCOPE_LINK,
		Table:     wireTable,
	})
	if err != nil {
		return fmt.Errorf("add the route to %s by %s: %w", dst, netdev, err)
	}
	return nil
}

// addRule adds a rule that searches the routing table for packets that arrive through iif.
func addRule(family, priority int, iif string, table int) error {
	r := netlink.NewRule()
	r.Family, r.Priority, r.IifName, r.Table = family, priority, iif, table
	if err := netlink.RuleAdd(r); err != nil {
		return fmt.Errorf("add routing rule %d: %w", priority, err)
	}
	return nil
}

// deleteFirstRule deletes the kernel's initial first rule.
func deleteFirstRule(family int) error {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table = family, 0, unix.RT_TABLE_LOCAL
	if err := netlink.RuleDel(r); err != nil {
		return fmt.Errorf("delete routing rule 0: %w", err)
	}
	return nil
}
