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

// addRDMA creates the RDMA devices, unless they exist, and waits until they are usable.
func addRDMA(cfg *wire.Config, ends ...end) error {
	for _, e := range ends {
		if err := waitCarrier(e.netdev); err != nil {
			return err
		}
		if cfg.PCI {
			continue
		}
		if err := netlink.RdmaLinkAdd(e.rdma, cfg.Driver, e.netdev); err != nil {
			return fmt.Errorf("add RDMA device %s (type %s) on %s: %w", e.rdma, cfg.Driver, e.netdev, err)
		}
	}
	for _, e := range ends {
		if err := waitGIDs(e); err != nil {
			return err
		}
	}
	return nil
}

// waitCarrier waits until the network device is running.
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

// waitGIDs waits until the RDMA device has its GIDs. The GIDs of RoCE equal the network
// device's addresses. A work queue adds them later. iWARP has only one GID, which is derived
// from the MAC address.
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

// iWARP reports whether the RDMA device in a directory of sysfs is an RNIC.
func iWARP(dir string) bool {
	b, _ := os.ReadFile(filepath.Join(dir, "node_type"))
	return strings.HasPrefix(string(b), "4:")
}

// gids returns the GIDs in a directory as addresses.
func gids(dir string) map[netip.Addr]bool {
	m := map[netip.Addr]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // an empty slot returns EINVAL
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(string(b))); err == nil {
			m[a] = true
		}
	}
	return m
}

// wait polls until ready returns true. A dump that changes in the kernel have interrupted is
// not an error. It is repeated.
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
			return fmt.Errorf("wait for %s: timeout after 15 s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
