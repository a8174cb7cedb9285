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

// Directories of sysfs with the functions of each PCI driver, and with the RDMA devices.
const (
	pciDrivers  = "/sys/bus/pci/drivers"
	rdmaDevices = "/sys/class/infiniband"
)

// takeFunctions waits until as many functions as ends have a network device and an RDMA device.
// It renames the network devices to the ends' names, and stores the names of the RDMA devices
// in the ends.
func takeFunctions(driver string, ends []end) error {
	d, err := kernel.FindDriver(driver)
	if err != nil {
		return err
	}
	var found []function
	err = wait(fmt.Sprintf("%d functions of %s with network and RDMA devices", len(ends), driver), func() (bool, error) {
		if found = numbered(rdmaDevices); d.Model.NetDriver != "" {
			found = functions(filepath.Join(pciDrivers, d.Model.NetDriver))
		}
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

// numbered returns the RDMA devices in a directory. The n-th device uses the n-th network card of
// the virtual machine.
func numbered(dir string) (list []function) {
	devices, _ := os.ReadDir(dir)
	for i, d := range devices {
		list = append(list, function{fmt.Sprintf("eth%d", i), d.Name()})
	}
	return list
}

// functions returns the functions in a driver's directory with both devices, by address.
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

// only returns the name of the only entry of a directory, or "" without exactly one entry.
func only(dir string) string {
	d, err := os.ReadDir(dir)
	if err != nil || len(d) != 1 {
		return ""
	}
	return d[0].Name()
}
