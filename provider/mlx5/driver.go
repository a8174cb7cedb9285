// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"purerdma/abi"
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Driver is the mlx5 driver. The zero Driver is ready for use.
type Driver struct {
	// Strict stops a CQ at the first completion that makes no sense: Poll returns a
	// *CQEError from then on. It is for tests of devices. Without Strict such a completion
	// is counted, logged and skipped (CQ.Skipped).
	Strict bool
}

var _ provider.Driver = Driver{}

// ID is RDMA_DRIVER_MLX5.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_MLX5 }

// ABIVersions returns 1: the only version that there is.
func (Driver) ABIVersions() (min, max uint32) {
	return abi.MLX5_IB_UVERBS_ABI_VERSION, abi.MLX5_IB_UVERBS_ABI_VERSION
}

// Open makes a *Context on f. It fails with an *UnsupportedError if the kernel or the device lacks
// a required capability. It also fails on architectures without assembly for stores to device
// registers. Only amd64 and arm64 have that.
//
// With MLX5_SCATTER_TO_CQE=0 in the environment, as with libmlx5, no device puts data into
// completions (provider.QPConfig.NoScatterToCQE). With MLX5_SHUT_UP_BF=1, all doorbells are single
// stores, and no request is copied to device registers.
func (d Driver) Open(f *uverbs.File) (provider.Context, error) {
	return d.open(f, mmio.Ordered)
}

// open is Open. ordered reports that stores to registers are ordered for a device.
func (d Driver) open(f *uverbs.File, ordered bool) (provider.Context, error) {
	if !ordered {
		return nil, unsupported("this build for %s has no ordered stores to device registers (only amd64 and arm64 without the tag purego)", runtime.GOARCH)
	}
	c := &Context{file: f, pageSize: os.Getpagesize(), noScatter: os.Getenv("MLX5_SCATTER_TO_CQE") == "0", strict: d.Strict}
	if v, ok := os.LookupEnv("MLX5_SHUT_UP_BF"); ok {
		c.noBlueFlame = v != "0"
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// UnsupportedError is a device or kernel that the driver cannot work with. It wraps
// errors.ErrUnsupported.
type UnsupportedError struct {
	What string // the kernel's value, and the required one
}

func (e *UnsupportedError) Error() string {
	return "mlx5: " + e.What + ": " + errors.ErrUnsupported.Error()
}

// Unwrap returns errors.ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{What: fmt.Sprintf(format, args...)}
}
