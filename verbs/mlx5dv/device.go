// SPDX-License-Identifier: Apache-2.0

// Package mlx5dv has the features of NVIDIA's ConnectX devices that package verbs does not
// have, as mlx5dv of rdma-core does for libibverbs. These are options of completion queues,
// completions with timestamps, the dynamically connected transport (DC), and recordings of the last
// operations. The rest of a program uses package verbs. Objects of both packages work together.
package mlx5dv

import (
	"errors"
	"fmt"

	"purerdma/internal/bridge"
	"purerdma/provider/mlx5"
	"purerdma/verbs"
)

// Device is an open ConnectX.
type Device struct {
	dev *verbs.Device
	ctx *mlx5.Context
}

// From returns dev with the methods of this package. If dev is not a ConnectX, the error wraps
// errors.ErrUnsupported. The caller still closes dev. Objects that are created here keep the
// device until they are closed.
func From(dev *verbs.Device) (*Device, error) {
	ctx, ok := dev.Provider().(*mlx5.Context)
	if !ok {
		return nil, fmt.Errorf("RDMA device %s is no ConnectX: %w", dev.Name(), errors.ErrUnsupported)
	}
	return &Device{dev, ctx}, nil
}

// internals has the functions that package verbs does not export.
var internals = bridge.VendorFunctions.(*bridge.Vendor[*verbs.Device, *verbs.PD, *verbs.CQ, *verbs.SRQ, verbs.CQConfig])

// opError wraps the error of an operation on the device, nil for nil.
func (d *Device) opError(op string, err error) error { return internals.OpError(d.dev, op, err) }
