// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"

	"purerdma/test/microvm/kernel"
)

// pciDrivers is the directory of sysfs with the functions of each driver.
const pciDrivers = "/sys/bus/pci/drivers"

// takeFunctions waits until as many functions as ends have a network device and an RDMA device.
// It renames the network devices to the ends' names, and stores the names of the RDMA devices
// in the ends.
func takeFunctions(driver string, ends []end) error {
	d, err := kernel.FindDriver(driver)
	if err != nil {
		return err
	}
	var found []function
	err = wait(fmt.Sprintf("%d functions of %s with network and RDMA devices", len(ends), d.Model.Driver), func() (bool, error) {
		found = functions(filepath.Join(pciDrivers, d.Model.Driver), d.Model.Netdev)
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
			return fmt.Errorf("rename %s to %s: %w", found[i].netdev, ends[i].netdev, err)
		}
	}
	return nil
}

// function contains a PCI function's devices.
type function struct{ netdev, rdma string }

// functions returns the functions in a driver's directory with both devices, by address. With
// netdev the network device belongs to the function. Otherwise the function and the network card
// of the virtual machine have the same number.
func functions(dir string, netdev bool) (list []function) {
	addrs, _ := filepath.Glob(filepath.Join(dir, "????:??:??.?"))
	slices.Sort(addrs)
	for _, a := range addrs {
		f := function{netdev: fmt.Sprintf("eth%d", len(list)), rdma: only(filepath.Join(a, "infiniband"))}
		if netdev {
			f.netdev = only(filepath.Join(a, "net"))
		}
		if f.netdev != "" && f.rdma != "" {
			list = append(list, f)
		}
	}
	return list
}

// only returns the name of the only entry of a directory, or "" without exactly one entry.
func only(dir string) string {
	d, err := os.ReadDir(dir)
	if err != nil || len(d) != 1 {
		return ""
	}
	return d[0].Name()
}
