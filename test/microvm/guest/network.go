// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// An end is an RDMA device with its network device and addresses.
type end struct {
	rdma, netdev string
	v4, v6       netip.Prefix
}

// String returns the entry in RDMAVM_HOSTS.
func (e end) String() string {
	return fmt.Sprintf("%s,%s,%s,%s", e.rdma, e.netdev, e.v4.Addr(), e.v6.Addr())
}

// plan contains the two ends of the wire. Their prefixes are in different subnets, as for hosts
// behind a router. Only the routes of routeOverWire connect them.
var plan = [2]end{
	{"rxe0", "eth8", netip.MustParsePrefix("10.8.0.1/24"), netip.MustParsePrefix("fd00:8::1/64")},
	{"rxe1", "eth9", netip.MustParsePrefix("10.8.1.2/24"), netip.MustParsePrefix("fd00:9::2/64")},
}

// makeNetwork creates the network devices and the RDMA devices on them. It returns the ends of
// the whole network, which with two VMs includes the other VM's end.
func makeNetwork(cfg *wire.Config) ([]end, error) {
	if err := upLoopback(); err != nil {
		return nil, err
	}
	ends := plan
	for i := range ends {
		ends[i].rdma = fmt.Sprintf("%s%d", cfg.Driver, i)
	}
	if cfg.VMs > 1 {
		return joinNetwork(cfg, ends)
	}
	if err := makeDevices(cfg, ends[:]); err != nil {
		return nil, err
	}
	if cfg.Ends == 2 {
		if err := routeOverWire(ends); err != nil {
			return nil, err
		}
	}
	return ends[:cfg.Ends], addRDMA(cfg, ends[:cfg.Ends]...)
}

// joinNetwork creates this VM's end of a network of two VMs. It has one cable and one subnet,
// and neither veth nor routes.
func joinNetwork(cfg *wire.Config, ends [2]end) ([]end, error) {
	for i := range ends {
		ends[i].v4 = netip.PrefixFrom(ends[i].v4.Addr(), 16)
		ends[i].v6 = netip.PrefixFrom(ends[i].v6.Addr(), 16)
	}
	mine := ends[cfg.Host : cfg.Host+1]
	err := sysctl("net/ipv6/conf/all/accept_dad", "0")
	if err != nil {
		return nil, err
	}
	if cfg.PCI {
		err = takeFunctions(cfg.Driver, mine)
		ends[1-cfg.Host].rdma = mine[0].rdma // both VMs use equal names
	} else {
		err = rename("eth0", mine[0].netdev)
	}
	if err := errors.Join(err, configure(mine[0])); err != nil {
		return nil, err
	}
	return ends[:], addRDMA(cfg, mine...)
}

// makeDevices creates and configures the network devices of the ends. A veth pair always has
// both devices.
func makeDevices(cfg *wire.Config, ends []end) error {
	var err error
	if cfg.PCI {
		ends = ends[:cfg.Ends]
		err = takeFunctions(cfg.Driver, ends)
	} else {
		err = makeVeth(ends)
	}
	for _, e := range ends {
		if err == nil {
			err = configure(e)
		}
	}
	return err
}

func upLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look up lo: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// makeVeth creates the pair of network devices.
func makeVeth(ends []end) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ends[0].netdev
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: ends[1].netdev}); err != nil {
		return fmt.Errorf("add the veth pair %s, %s: %w", ends[0].netdev, ends[1].netdev, err)
	}
	return nil
}

// configure adds an end's addresses and sets it up. Addresses are usable at once, without
// duplicate address detection.
func configure(e end) error {
	link, err := netlink.LinkByName(e.netdev)
	if err != nil {
		return fmt.Errorf("look up %s: %w", e.netdev, err)
	}
	if err := sysctl("net/ipv6/conf/"+e.netdev+"/accept_dad", "0"); err != nil {
		return err
	}
	for _, p := range []netip.Prefix{e.v4, e.v6} {
		a := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("add address %s to %s: %w", p, e.netdev, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", e.netdev, err)
	}
	return nil
}

// rename renames a network device. It waits for the device, which appears when its driver is
// ready.
func rename(from, to string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		link, err := netlink.LinkByName(from)
		if err == nil {
			return netlink.LinkSetName(link, to)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for network device %s: %w", from, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sysctl sets a kernel parameter.
func sysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+name, []byte(value), 0)
}

func ipNet(p netip.Prefix) *net.IPNet {
	a := p.Addr()
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(p.Bits(), a.BitLen())}
}

// host returns the network that contains only the address.
func host(a netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(a, a.BitLen())) }
