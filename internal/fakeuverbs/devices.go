// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"fmt"
	"slices"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// Devices holds the devices of a fake kernel.
type Devices struct{ all []uverbs.DeviceInfo }

// NewDevices returns devices of one driver with these names. The GUIDs are consecutive.
func NewDevices(driver abi.DriverID, abiVersion uint32, guid uint64, names ...string) Devices {
	var d Devices
	for i, name := range names {
		d.all = append(d.all, uverbs.DeviceInfo{
			Name:       name,
			Index:      i,
			Node:       fmt.Sprintf("/dev/infiniband/uverbs%d", i),
			DriverID:   driver,
			ABIVersion: abiVersion,
			NodeGUID:   guid + uint64(i),
			NodeType:   nodeType(driver),
		})
	}
	return d
}

// nodeType returns the type of a driver's devices.
func nodeType(driver abi.DriverID) uverbs.NodeType {
	if driver == abi.RDMA_DRIVER_SIW || driver == abi.RDMA_DRIVER_ERDMA {
		return uverbs.NodeRNIC
	}
	return uverbs.NodeCA
}

// Devices lists them.
func (d Devices) Devices() ([]uverbs.DeviceInfo, error) { return slices.Clone(d.all), nil }

// Interfaces lists the network interfaces of their ports.
func (d Devices) Interfaces() ([]uverbs.Interface, error) {
	var all []uverbs.Interface
	for _, own := range d.all {
		all = append(all, netInterface(own))
	}
	return all, nil
}

// Remove removes a device, and reports whether it existed.
func (d *Devices) Remove(name string) bool {
	n := len(d.all)
	d.all = slices.DeleteFunc(slices.Clone(d.all), func(own uverbs.DeviceInfo) bool { return own.Name == name })
	return len(d.all) < n
}

// Find returns the device with the node that a program opens.
func (d Devices) Find(info uverbs.DeviceInfo) (uverbs.DeviceInfo, error) {
	for _, own := range d.all {
		if own.Node == info.Node {
			return own, nil
		}
	}
	return uverbs.DeviceInfo{}, syscall.ENOENT
}
