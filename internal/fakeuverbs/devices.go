// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"fmt"
	"slices"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

// Devices are those of a fake kernel. They stay as they were made.
type Devices struct{ all []uverbs.DeviceInfo }

// NewDevices returns devices of one driver with these names. The GUID of each is one
// more than that of the device before it.
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
			NodeType:   uverbs.NodeCA,
		})
	}
	return d
}

// Devices lists them.
func (d Devices) Devices() ([]uverbs.DeviceInfo, error) { return slices.Clone(d.all), nil }

// Find returns the device whose node a program opens.
func (d Devices) Find(info uverbs.DeviceInfo) (uverbs.DeviceInfo, error) {
	for _, own := range d.all {
		if own.Node == info.Node {
			return own, nil
		}
	}
	return uverbs.DeviceInfo{}, syscall.ENOENT
}
