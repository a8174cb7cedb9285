// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// recovery is the time limit for the driver's reset of a failed card.
const recovery = 2 * time.Minute

// card contains the properties of a card's network device that its driver's reset removes.
type card struct {
	host   vmtest.Host
	pci    string // directory of the PCI function
	addrs  []netlink.Addr
	routes []netlink.Route
}

// keep records the properties of a host's network device.
func keep(t *testing.T, h vmtest.Host) *card {
	t.Helper()
	c := &card{host: h}
	link, err := netlink.LinkByName(h.Interface)
	if err == nil {
		c.pci, err = filepath.EvalSymlinks("/sys/class/net/" + h.Interface + "/device")
	}
	if err == nil {
		c.addrs, err = netlink.AddrList(link, netlink.FAMILY_ALL)
	}
	if err == nil {
		c.routes, err = netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index, Table: 200}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	}
	if err != nil {
		t.Fatalf("keep(%s): %v", h.Interface, err)
	}
	return c
}

// restore waits until the driver has created the card's devices again, and restores their names
// and addresses.
func (c *card) restore(t *testing.T) {
	t.Helper()
	var err error
	for start := time.Now(); time.Since(start) < recovery; time.Sleep(50 * time.Millisecond) {
		if err = c.try(); err == nil {
			return
		}
	}
	t.Fatalf("the card did not return: %v", err)
}

func (c *card) try() error {
	names, _ := filepath.Glob(c.pci + "/net/*")
	rdma, _ := filepath.Glob(c.pci + "/infiniband/*")
	if len(names) != 1 || len(rdma) != 1 {
		return fmt.Errorf("devices = %v and %v, want one each", names, rdma)
	}
	link, err := netlink.LinkByName(filepath.Base(names[0]))
	if err == nil && link.Attrs().Name != c.host.Interface {
		err = netlink.LinkSetName(link, c.host.Interface)
	}
	if err != nil {
		return err
	}
	for file, value := range map[string]string{"ipv4/conf/%s/accept_local": "1", "ipv4/conf/%s/rp_filter": "0", "ipv6/conf/%s/accept_dad": "0"} {
		err = errors.Join(err, os.WriteFile("/proc/sys/net/"+fmt.Sprintf(file, c.host.Interface), []byte(value), 0))
	}
	for _, a := range c.addrs {
		a.LinkIndex, a.Label = link.Attrs().Index, ""
		err = errors.Join(err, netlink.AddrReplace(link, &a))
	}
	err = errors.Join(err, netlink.LinkSetUp(link))
	for _, r := range c.routes {
		r.LinkIndex = link.Attrs().Index
		err = errors.Join(err, netlink.RouteReplace(&r))
	}
	if err != nil {
		return err
	}
	dev, err := verbs.DefaultHost().Open(filepath.Base(rdma[0]))
	if err != nil {
		return err
	}
	defer dev.Close()
	if dev.Name() != c.host.Device {
		return fmt.Errorf("device = %s, want the old name", dev.Name())
	}
	_, err4 := dev.GIDFor(1, c.host.IPv4)
	_, err6 := dev.GIDFor(1, c.host.IPv6)
	return errors.Join(err4, err6)
}
