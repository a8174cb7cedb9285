// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
)

// pciDrivers is where sysfs has the functions of each driver.
const pciDrivers = "/sys/bus/pci/drivers"

// takeFunctions waits until as many functions as there are ends have a network
// device and an RDMA device. The former get the ends' names, the ends the latter's.
func takeFunctions(driver string, ends []end) error {
	var found []function
	err := wait(fmt.Sprintf("%d functions of %s with their devices", len(ends), driver), func() (bool, error) {
		found = functions(filepath.Join(pciDrivers, driver))
		return len(found) >= len(ends), nil
	})
	if err != nil {
		return err
	}
	for i := range ends {
		ends[i].rdma = found[i].rdma
		link, err := netlink.LinkByName(found[i].netdev)
		if err == nil {
			err = netlink.LinkSetName(link, ends[i].netdev)
		}
		if err != nil {
			return fmt.Errorf("renaming %s to %s: %w", found[i].netdev, ends[i].netdev, err)
		}
	}
	return nil
}

// function is a PCI function's devices.
type function struct{ netdev, rdma string }

// functions returns those of a driver's directory that have both, by address.
func functions(dir string) (list []function) {
	addrs, _ := filepath.Glob(filepath.Join(dir, "????:??:??.?"))
	slices.Sort(addrs)
	for _, a := range addrs {
		f := function{netdev: only(filepath.Join(a, "net")), rdma: only(filepath.Join(a, "infiniband"))}
		if f.netdev != "" && f.rdma != "" {
			list = append(list, f)
		}
	}
	return list
}

// only returns the name of the one entry of a directory, "" if that is not so.
func only(dir string) string {
	d, err := os.ReadDir(dir)
	if err != nil || len(d) != 1 {
		return ""
	}
	return d[0].Name()
}
