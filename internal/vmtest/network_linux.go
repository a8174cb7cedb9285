// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lose drops all packets that the host's interface sends. The returned function, or the end of the test,
// undoes it.
func (h Host) Lose(t testing.TB) (undo func()) {
	t.Helper()
	all := netlink.NetemQdiscAttrs{Loss: 100}
	if !Modeled() {
		return h.netem(t, all)
	}
	// Packets of a modeled device bypass the kernel.
	h.Fault(t, "silent", 1)
	undo = func() { h.TryFault("silent", 0) }
	if Driver() == "erdma" { // except for the connection manager's packets
		speak, deliver := undo, h.netem(t, all)
		undo = func() { deliver(); speak() }
	}
	t.Cleanup(undo)
	return undo
}

// Delay delays all packets that the host's interface sends. The returned function, or the end of the test,
// undoes it. Packets of a modeled device's queues bypass the kernel and are not delayed.
func (h Host) Delay(t testing.TB, d time.Duration) (undo func()) {
	t.Helper()
	return h.netem(t, delayed(d))
}

// Refuse makes the host's interface take one packet and refuse all others, as a network device with a full queue
// does. The sender of a refused packet gets an error, and not the sender of a lost one. The returned function, or the
// end of the test, undoes it.
func (h Host) Refuse(t testing.TB) (undo func()) {
	t.Helper()
	return h.netem(t, netlink.NetemQdiscAttrs{Latency: uint32((10 * time.Second).Microseconds()), Limit: 1})
}

// TryDelay is Delay for programs.
func (h Host) TryDelay(d time.Duration) (undo func(), err error) { return h.tryNetem(delayed(d)) }

// delayed returns attributes of a netem that delays packets, and drops none.
func delayed(d time.Duration) netlink.NetemQdiscAttrs {
	return netlink.NetemQdiscAttrs{Latency: uint32(d.Microseconds()), Limit: 100_000}
}

// netem puts a qdisc of kind netem on the host's interface until the end of the test.
func (h Host) netem(t testing.TB, attrs netlink.NetemQdiscAttrs) (undo func()) {
	t.Helper()
	undo, err := h.tryNetem(attrs)
	if err != nil {
		t.Fatalf("tryNetem(%+v): %v", attrs, err)
	}
	t.Cleanup(undo)
	return undo
}

func (h Host) tryNetem(attrs netlink.NetemQdiscAttrs) (undo func(), err error) {
	link, err := netlink.LinkByName(h.Interface)
	if err != nil {
		return nil, fmt.Errorf("find the interface %s: %w", h.Interface, err)
	}
	q := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}, attrs)
	if err := netlink.QdiscReplace(q); err != nil {
		return nil, fmt.Errorf("add a netem to %s: %w", h.Interface, err)
	}
	return func() { netlink.QdiscDel(q) }, nil
}

// MoveNeighbour changes the hardware address of a neighbour of the host, as if the neighbour's own address
// had changed. The kernel reports the change, and no packet reaches the neighbour. The returned function,
// or the end of the test, undoes it.
func (h Host) MoveNeighbour(t testing.TB, ip netip.Addr) (undo func()) {
	t.Helper()
	n := &netlink.Neigh{
		LinkIndex:    h.link(t).Attrs().Index,
		State:        netlink.NUD_PERMANENT,
		IP:           ip.AsSlice(),
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 99},
	}
	if err := netlink.NeighSet(n); err != nil {
		t.Fatalf("move the neighbour %v of %s: %v", ip, h.Interface, err)
	}
	undo = func() { netlink.NeighDel(n) }
	t.Cleanup(undo)
	return undo
}

// KeepConfiguration restores the routes of the host's interface at the end of a test that sets the interface down.
// The kernel then deletes the routes. From now on it keeps the addresses.
func (h Host) KeepConfiguration(t testing.TB) {
	t.Helper()
	h.keepAddresses(t)
	routes := h.routes(t)
	t.Cleanup(func() { h.restoreRoutes(t, routes) })
}

// keepAddresses makes the kernel keep the IPv6 addresses of the host's interface when it goes down.
func (h Host) keepAddresses(t testing.TB) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+h.Interface+"/keep_addr_on_down", []byte("1"), 0); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}

// routes returns the routes of the host's interface, without the routes that the kernel makes with an address.
func (h Host) routes(t testing.TB) []netlink.Route {
	t.Helper()
	all := &netlink.Route{LinkIndex: h.link(t).Attrs().Index, Table: unix.RT_TABLE_UNSPEC}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, all, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		t.Fatalf("RouteListFiltered(%s): %v", h.Interface, err)
	}
	return slices.DeleteFunc(routes, func(r netlink.Route) bool { return r.Protocol == unix.RTPROT_KERNEL })
}

// restoreRoutes adds routes to the host's interface, which may be a new one.
func (h Host) restoreRoutes(t testing.TB, routes []netlink.Route) {
	t.Helper()
	for i := range routes {
		routes[i].LinkIndex = h.link(t).Attrs().Index
		if err := netlink.RouteReplace(&routes[i]); err != nil {
			t.Errorf("RouteReplace(%v): %v", routes[i], err)
		}
	}
}

// KeepInterface restores the name, the addresses and the routes of the host's interface at the end of a test in which its driver
// makes a new interface.
func (h Host) KeepInterface(t testing.TB) {
	t.Helper()
	routes := h.routes(t)
	addrs, err := netlink.AddrList(h.link(t), netlink.FAMILY_ALL)
	if err != nil {
		t.Fatalf("netlink.AddrList(%s): %v", h.Interface, err)
	}
	t.Cleanup(func() {
		if err := h.renameInterface(); err != nil {
			t.Errorf("renameInterface(%s): %v", h.Interface, err)
			return
		}
		h.restoreAddresses(t, addrs)
		h.restoreRoutes(t, routes)
		if err := h.awaitAddresses(); err != nil {
			t.Errorf("awaitAddresses(%s): %v", h.Device, err)
		}
	})
}

// renameInterface renames a new interface of the host's device to the host's name for it.
func (h Host) renameInterface() error {
	if h.Here() {
		return nil // it is the same interface
	}
	names, err := filepath.Glob("/sys/class/infiniband/" + h.Device + "/device/net/*")
	if err != nil || len(names) != 1 {
		return fmt.Errorf("the device has interfaces %q, not one (%v)", names, err)
	}
	link, err := netlink.LinkByName(filepath.Base(names[0]))
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, h.Interface))
}

// restoreAddresses sets the host's interface up, and adds the addresses that it lacks.
func (h Host) restoreAddresses(t testing.TB, addrs []netlink.Addr) {
	t.Helper()
	link := h.link(t)
	if err := netlink.LinkSetUp(link); err != nil {
		t.Errorf("netlink.LinkSetUp(%s): %v", h.Interface, err)
	}
	for i := range addrs {
		a := &netlink.Addr{IPNet: addrs[i].IPNet}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrReplace(link, a); err != nil {
			t.Errorf("netlink.AddrReplace(%v): %v", a, err)
		}
	}
}

func (h Host) link(t testing.TB) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(h.Interface)
	if err != nil {
		t.Fatalf("%s: %v", h.Interface, err)
	}
	return link
}

// Bond creates a new host. It has an RDMA device on a bond of two interfaces. The bond has the hardware
// address of the active interface. failOver makes the other interface active.
func Bond(t testing.TB) (h Host, failOver func()) {
	t.Helper()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: "bond8"})
	bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
	bond.FailOverMac = netlink.BOND_FAIL_OVER_MAC_ACTIVE
	bond.Miimon = 50
	check("make the bond", netlink.LinkAdd(bond))
	t.Cleanup(func() { netlink.LinkDel(bond) })
	for _, name := range []string{"slave1", "slave2"} {
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: name})
		veth.PeerName = name + "p"
		check("make "+name, netlink.LinkAdd(veth))
		t.Cleanup(func() { netlink.LinkDel(veth) })
		peer, err := netlink.LinkByName(veth.PeerName)
		check(veth.PeerName, err)
		check("raise "+veth.PeerName, netlink.LinkSetUp(peer))
		check("enslave "+name, netlink.LinkSetBondSlave(veth, bond))
		check("raise "+name, netlink.LinkSetUp(veth))
	}
	h = Host{Device: "rdmabond", Interface: "bond8", IPv4: netip.MustParseAddr("10.88.0.1"), IPv6: netip.MustParseAddr("fd00:88::1")}
	for _, ip := range []netip.Addr{h.IPv4, h.IPv6} {
		bits := ip.BitLen() - 8
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}}
		check("address the bond", netlink.AddrAdd(bond, addr))
	}
	check("raise the bond", netlink.LinkSetUp(bond))
	active := "/sys/class/net/bond8/bonding/active_slave"
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(active)
		if err == nil && len(b) > 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("state of the bond = %q, %v, want up", b, err)
		}
	}
	h.Plug(t)
	t.Cleanup(func() { h.Unplug() })
	return h, func() {
		t.Helper()
		b, err := os.ReadFile(active)
		check("read the active interface", err)
		other := "slave1"
		if string(b) == "slave1\n" {
			other = "slave2"
		}
		check("fail over", os.WriteFile(active, []byte(other), 0))
	}
}
