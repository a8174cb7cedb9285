// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/nldev"
)

// nodeDir is where udev, or the kernel's devtmpfs, puts verbs devices.
const nodeDir = "/dev/infiniband"

// Devices lists the RDMA devices, by NETLINK_RDMA or, where that is missing, by
// sysfs. A device without a verbs character device has an empty Node.
func (System) Devices() ([]DeviceInfo, error) {
	devs, err := nldev.Devices()
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPERM) {
		return sysfsDevices("/sys/class")
	}
	if err != nil {
		return nil, os.NewSyscallError("list RDMA devices", err)
	}
	infos := make([]DeviceInfo, 0, len(devs))
	for _, d := range devs {
		info := DeviceInfo{Name: d.Name, Index: int(d.Index), NodeGUID: d.NodeGUID, NodeType: NodeType(d.NodeType)}
		if c, err := nldev.Uverbs(d.Index); err == nil {
			info.Node = filepath.Join(nodeDir, c.Name)
			info.DriverID, info.ABIVersion = c.DriverID, c.ABIVersion
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// sysfsDevices is Devices from the files below class, usually /sys/class. They
// name neither the index nor the driver: of those without a PCI device of their
// own, the name tells it.
func sysfsDevices(class string) ([]DeviceInfo, error) {
	dir := filepath.Join(class, "infiniband_verbs")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // ib_uverbs is not loaded: no devices
	}
	if err != nil {
		return nil, err
	}
	var infos []DeviceInfo
	for _, e := range entries {
		name := readLine(filepath.Join(dir, e.Name(), "ibdev"))
		if name == "" {
			continue // abi_version, which is not a device
		}
		ib := filepath.Join(class, "infiniband", name)
		version, _ := strconv.ParseUint(readLine(filepath.Join(dir, e.Name(), "abi_version")), 10, 32)
		// "5054:00ff:fe12:3456", the high bytes first.
		guid, _ := strconv.ParseUint(strings.ReplaceAll(readLine(filepath.Join(ib, "node_guid")), ":", ""), 16, 64)
		// "1: CA"
		typ, _, _ := strings.Cut(readLine(filepath.Join(ib, "node_type")), ":")
		nodeType, _ := strconv.ParseUint(typ, 10, 8)
		infos = append(infos, DeviceInfo{
			Name:       name,
			Index:      -1,
			Node:       filepath.Join(nodeDir, e.Name()),
			DriverID:   driverOfName(name),
			ABIVersion: uint32(version),
			NodeGUID:   guid,
			NodeType:   NodeType(nodeType),
		})
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, nil
}

// driverOfName guesses the driver of a software device by its name, as
// rdma-core does.
func driverOfName(name string) abi.DriverID {
	switch {
	case strings.HasPrefix(name, "rxe"):
		return abi.RDMA_DRIVER_RXE
	case strings.HasPrefix(name, "siw"):
		return abi.RDMA_DRIVER_SIW
	}
	return abi.RDMA_DRIVER_UNKNOWN
}

// readLine returns the only line of a file of sysfs, "" if it cannot.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
