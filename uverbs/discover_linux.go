// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/rdmanl"
)

// nodeDir is the directory of verbs devices, which udev or the kernel's devtmpfs creates.
const nodeDir = "/dev/infiniband"

// Devices lists the RDMA devices, by NETLINK_RDMA or, if that is missing, by sysfs. A device
// without a verbs character device has an empty Node.
func (System) Devices() ([]DeviceInfo, error) {
	infos, err := netlinkDevices()
	if err != nil {
		infos, sysErr := sysfsDevices(sysClass)
		if len(infos) > 0 || noNetlink(err) {
			return infos, sysErr
		}
		return nil, err
	}
	return infos, nil
}

func netlinkDevices() ([]DeviceInfo, error) {
	c, err := rdmanl.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	devs, err := c.Devices()
	if err != nil {
		return nil, err
	}
	infos := make([]DeviceInfo, 0, len(devs))
	for _, d := range devs {
		info := DeviceInfo{Name: d.Name, Index: int(d.Index), NodeGUID: d.NodeGUID, NodeType: d.NodeType}
		if node, err := c.Uverbs(d.Index); err == nil {
			info.Node = filepath.Join(nodeDir, node.Name)
			info.DriverID, info.ABIVersion = node.DriverID, node.ABIVersion
		} else {
			info.fromSysfs(sysClass) // Linux before 5.3
		}
		infos = append(infos, info)
	}
	return infos, nil
}

const sysClass = "/sys/class"

// noNetlink reports whether an error means that NETLINK_RDMA is not available. The cause can be a
// missing module, an old kernel, or a system call filter.
func noNetlink(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)
}

// fromSysfs adds the data of the files below class that netlink did not return.
func (d *DeviceInfo) fromSysfs(class string) {
	infos, err := sysfsDevices(class)
	if err != nil {
		return
	}
	for _, i := range infos {
		if i.Name == d.Name {
			d.Node, d.DriverID, d.ABIVersion = i.Node, i.DriverID, i.ABIVersion
		}
	}
}

// Ports lists the ports of a device, with their states and network interfaces,
// without opening it (RDMA_NLDEV_CMD_PORT_GET). The device needs an Index.
func (System) Ports(d DeviceInfo) ([]PortInfo, error) {
	if d.Index < 0 {
		return nil, errors.ErrUnsupported
	}
	c, err := rdmanl.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ports, err := c.Ports(uint32(d.Index))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	infos := make([]PortInfo, len(ports))
	for i, p := range ports {
		infos[i] = PortInfo{Number: int(p.Number), State: uint8(p.State), PhysState: uint8(p.PhysState), LID: uint16(p.LID), Ifindex: int(p.Ifindex), Interface: p.Interface}
	}
	return infos, nil
}

// Info returns the settings of the kernel's RDMA subsystem (RDMA_NLDEV_CMD_SYS_GET).
func (System) Info() (SystemInfo, error) {
	c, err := rdmanl.Dial()
	if err != nil {
		return SystemInfo{}, err
	}
	defer c.Close()
	return c.System()
}

// sysfsDevices is Devices from the files below class, usually /sys/class. They do not contain the
// index. The driver is the PCI device's. For devices without a PCI device, it is derived from the
// name.
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
			DriverID:   sysfsDriver(ib),
			ABIVersion: uint32(version),
			NodeGUID:   guid,
			NodeType:   NodeType(nodeType),
		})
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, nil
}

// sysfsDriver returns the driver of the device with that directory below /sys/class/infiniband. The
// driver of a device without a link to its driver is guessed by the name, as rdma-core does for software devices.
// Linux's erdma makes no such link.
func sysfsDriver(ib string) abi.DriverID {
	if link, err := os.Readlink(filepath.Join(ib, "device/driver")); err == nil {
		switch filepath.Base(link) {
		case "mlx5_core":
			return abi.RDMA_DRIVER_MLX5
		case "bnxt_en":
			return abi.RDMA_DRIVER_BNXT_RE
		}
		return abi.RDMA_DRIVER_UNKNOWN
	}
	switch name := filepath.Base(ib); {
	case strings.HasPrefix(name, "erdma"):
		return abi.RDMA_DRIVER_ERDMA
	case strings.HasPrefix(name, "rxe"):
		return abi.RDMA_DRIVER_RXE
	case strings.HasPrefix(name, "siw"):
		return abi.RDMA_DRIVER_SIW
	}
	return abi.RDMA_DRIVER_UNKNOWN
}

// readLine returns the only line of a file of sysfs, or "" after an error.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
