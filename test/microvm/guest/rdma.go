// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// addRDMA makes the RDMA devices, unless they are there, and waits until they can
// be used.
func addRDMA(cfg *wire.Config, ends ...end) error {
	for _, e := range ends {
		if err := waitCarrier(e.netdev); err != nil {
			return err
		}
		if cfg.PCI {
			continue
		}
		if err := netlink.RdmaLinkAdd(e.rdma, cfg.Driver, e.netdev); err != nil {
			return fmt.Errorf("adding RDMA device %s (type %s) on %s: %w", e.rdma, cfg.Driver, e.netdev, err)
		}
	}
	for _, e := range ends {
		if err := waitGIDs(e); err != nil {
			return err
		}
	}
	return nil
}

// waitCarrier waits until the network device runs.
func waitCarrier(netdev string) error {
	return wait(netdev+" to run", func() (bool, error) {
		link, err := netlink.LinkByName(netdev)
		if err != nil {
			return false, err
		}
		a, err := netlink.AddrList(link, unix.AF_INET6)
		if err != nil {
			return false, err
		}
		for _, a := range a {
			if a.Flags&unix.IFA_F_TENTATIVE != 0 {
				return false, nil
			}
		}
		return link.Attrs().OperState == netlink.OperUp, nil
	})
}

// waitGIDs waits until the RDMA device has its GIDs. Those of RoCE are the
// network device's addresses, which follow from a work queue; iWARP has no
// more than one, made of the MAC address.
func waitGIDs(e end) error {
	dir := filepath.Join("/sys/class/infiniband", e.rdma)
	return wait(fmt.Sprintf("GIDs of %s", e.rdma), func() (bool, error) {
		have := gids(filepath.Join(dir, "ports/1/gids"))
		if iWARP(dir) {
			delete(have, netip.IPv6Unspecified())
			return len(have) > 0, nil
		}
		return have[netip.AddrFrom16(e.v4.Addr().As16())] && have[e.v6.Addr()], nil
	})
}

// iWARP says whether the RDMA device in a directory of sysfs is an RNIC.
func iWARP(dir string) bool {
	b, _ := os.ReadFile(filepath.Join(dir, "node_type"))
	return strings.HasPrefix(string(b), "4:")
}

// gids returns the GIDs listed in a directory, as addresses.
func gids(dir string) map[netip.Addr]bool {
	m := map[netip.Addr]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // an empty slot says EINVAL
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(string(b))); err == nil {
			m[a] = true
		}
	}
	return m
}

// wait polls until ready says so. A dump that the kernel's own changes
// interrupted is no error but a reason to ask again.
func wait(what string, ready func() (bool, error)) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		ok, err := ready()
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			ok, err = false, nil
		}
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: nothing in 15 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
