// SPDX-License-Identifier: Apache-2.0

package provider

// ECE holds the enhanced connection establishment options of one side of a connection (struct
// ibv_ece of ibv_query_ece(3)). Only devices of the vendor understand the options. The zero ECE
// means a device without options.
type ECE struct {
	VendorID uint32 // the vendor's IEEE OUI, or another number that the vendor chose
	Options  uint32 // defined by the vendor
}

// ECEQP is a QP of a driver with enhanced connection establishment.
type ECEQP interface {
	QP
	// QueryECE returns the options that the device has granted. There are none between
	// SetECE and the next Modify.
	QueryECE() (ECE, error)
	// SetECE sets the options for the next Modify. The error wraps EINVAL for options of another
	// vendor, and errors.ErrUnsupported if the device has no options.
	SetECE(ECE) error
}
