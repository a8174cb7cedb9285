// SPDX-License-Identifier: Apache-2.0

package provider

// ECE is the enhanced connection establishment options of one side of a connection (struct
// ibv_ece of ibv_query_ece(3)). Only devices of the vendor understand the options. The zero
// ECE is that of a device without options.
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
	// SetECE sets the options for the next Modify. Options of another vendor give an error
	// that wraps EINVAL, a device without options one that wraps errors.ErrUnsupported.
	SetECE(ECE) error
}
