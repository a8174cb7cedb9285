// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// VLAN creates an interface in a VLAN on each host's interface, and waits until the RDMA devices have the GIDs of its
// addresses. Two hosts reach each other in the VLAN over the wire. With rdmavm -vms it only makes the interface of this virtual
// machine's host. The end of the test removes the interfaces.
func VLAN(t testing.TB, id int, hosts ...Host) {
	t.Helper()
	for i, h := range hosts {
		if TwoVMs() && !h.Here() {
			continue
		}
		link := h.addVLAN(t, id)
		for _, p := range vlanPrefixes(i) {
			addr := &netlink.Addr{IPNet: ipNet(p)}
			if p.Addr().Is6() {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				t.Fatalf("netlink.AddrAdd(%v): %v", p, err)
			}
		}
		if len(hosts) == 2 && !TwoVMs() {
			routeVLAN(t, link, i)
		}
		h.awaitGIDs(t, link.Attrs().Name, vlanPrefixes(i))
	}
}

// vlanPrefixes returns the addresses of a host in a VLAN, which is one subnet.
func vlanPrefixes(host int) [2]netip.Prefix {
	v4 := netip.AddrFrom4([4]byte{10, 77, 0, byte(host + 1)})
	v6 := netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x77, 15: byte(host + 1)})
	return [2]netip.Prefix{netip.PrefixFrom(v4, 24), netip.PrefixFrom(v6, 64)}
}

// addVLAN creates an interface in a VLAN on the host's interface, without addresses.
func (h Host) addVLAN(t testing.TB, id int) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = fmt.Sprintf("%s.%d", h.Interface, id), h.link(t).Attrs().Index
	link := &netlink.Vlan{LinkAttrs: attrs, VlanId: id}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatalf("netlink.LinkAdd(%s): %v", attrs.Name, err)
	}
	t.Cleanup(func() { netlink.LinkDel(link) })
	// The link-local address is usable at once.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+attrs.Name+"/accept_dad", []byte("0"), 0); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatalf("netlink.LinkSetUp(%s): %v", attrs.Name, err)
	}
	return link
}

// Numbers of the virtual machine's routing (test/microvm/guest). Packets that arrive over the wire search the local table first.
// All others search the table with the routes over the wire before it.
const (
	wireTable     = 200
	arrivingRules = 5 // priority of the first rule of a VLAN, before the rule of wireTable
)

// routeVLAN routes packets between the two hosts over the wire.
func routeVLAN(t testing.TB, link netlink.Link, host int) {
	t.Helper()
	for k, own := range vlanPrefixes(host) {
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.IifName, rule.Table = unix.AF_INET, arrivingRules+host, link.Attrs().Name, unix.RT_TABLE_LOCAL
		if own.Addr().Is6() {
			rule.Family = unix.AF_INET6
		}
		if err := netlink.RuleAdd(rule); err != nil {
			t.Fatalf("netlink.RuleAdd(%v): %v", rule, err)
		}
		t.Cleanup(func() { netlink.RuleDel(rule) })
		peer := vlanPrefixes(1 - host)[k].Addr()
		route := &netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: ipNet(netip.PrefixFrom(peer, peer.BitLen())), Src: own.Addr().AsSlice(),
			Scope: netlink.SCOPE_LINK, Table: wireTable,
		}
		if err := netlink.RouteAdd(route); err != nil {
			t.Fatalf("netlink.RouteAdd(%v): %v", route, err)
		}
	}
}

// awaitGIDs waits until the host's device has the GIDs of an interface's addresses.
func (h Host) awaitGIDs(t testing.TB, name string, addrs [2]netip.Prefix) {
	t.Helper()
	if IWARP() {
		return // its GID is the hardware address
	}
	port := "/sys/class/infiniband/" + h.Device + "/ports/1/"
	deadline := time.Now().Add(30 * time.Second)
	for _, p := range addrs {
		for !hasGID(port, name, p.Addr()) {
			if time.Now().After(deadline) {
				t.Fatalf("%s has no GID of %s for %v", h.Device, name, p.Addr())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// hasGID reports whether a port has the GID of an address of a network interface.
func hasGID(port, name string, addr netip.Addr) bool {
	owners, err := filepath.Glob(port + "gid_attrs/ndevs/*")
	if err != nil {
		return false
	}
	for _, file := range owners {
		owner, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(owner)) != name { // an unused index has no owner
			continue
		}
		text, err := os.ReadFile(port + "gids/" + filepath.Base(file))
		if err != nil {
			continue
		}
		if gid, err := netip.ParseAddr(strings.TrimSpace(string(text))); err == nil && gid.Unmap() == addr {
			return true
		}
	}
	return false
}

func ipNet(p netip.Prefix) *net.IPNet {
	a := p.Addr()
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(p.Bits(), a.BitLen())}
}
