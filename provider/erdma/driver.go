// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/uverbs"
)

// Driver is the erdma driver. It has no state.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID returns RDMA_DRIVER_ERDMA.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_ERDMA }

// ABIVersions returns 1, the only version.
func (Driver) ABIVersions() (min, max uint32) { return abi.ERDMA_ABI_VERSION, abi.ERDMA_ABI_VERSION }

// Open makes a context on f. It fails on architectures without assembly for stores to device
// registers. Only amd64 and arm64 have that.
func (d Driver) Open(f *uverbs.File) (provider.Context, error) { return d.open(f, mmio.Ordered) }

// open is Open. ordered reports that stores to registers are ordered for a device.
func (Driver) open(f *uverbs.File, ordered bool) (provider.Context, error) {
	if !ordered {
		return nil, unsupported("this build for %s has no ordered stores to device registers (only amd64 and arm64 without the tag purego)", runtime.GOARCH)
	}
	c := &Context{
		KernelObjects: provider.KernelObjects{File: f},
		pageSize:      os.Getpagesize(),
		iwarp:         f.Info().NodeType == uverbs.NodeRNIC,
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open makes the context of the kernel.
func (c *Context) open() error {
	var resp abi.ErdmaUrespAllocCtx
	if _, err := c.File.GetContext(uverbs.Driver{Out: abi.Bytes(&resp)}); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("erdma: the doorbells of this adapter need CAP_SYS_RAWIO: %w", err)
		}
		return err
	}
	if err := c.doorbells.open(c.File, &resp); err != nil {
		return err
	}
	attr, err := c.File.QueryDeviceEx(uverbs.Driver{})
	if err != nil {
		return fmt.Errorf("query erdma device: %w", err)
	}
	c.atomics = attr.Base.AtomicCap != 0
	return nil
}

// unsupported returns an error that wraps errors.ErrUnsupported.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("erdma: "+format+": %w", append(args, errors.ErrUnsupported)...)
}
