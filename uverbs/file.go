// SPDX-License-Identifier: Apache-2.0

package uverbs

// File is an open verbs device.
type File struct{}

// CompChannel is a completion event channel of a File.
type CompChannel struct{}

// Kernel is where devices come from: the running kernel, or a test double.
type Kernel interface {
	// Devices lists the devices.
	Devices() ([]DeviceInfo, error)
}
