// SPDX-License-Identifier: Apache-2.0

package bnxtre

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

// Driver is the bnxt_re driver. It has no state.
type Driver struct{}

var _ provider.Driver = Driver{}

// ID returns RDMA_DRIVER_BNXT_RE.
func (Driver) ID() abi.DriverID { return abi.RDMA_DRIVER_BNXT_RE }

// ABIVersions returns 1, the only version.
func (Driver) ABIVersions() (min, max uint32) {
	return abi.BNXT_RE_ABI_VERSION, abi.BNXT_RE_ABI_VERSION
}

// Open makes a context on f. It fails on architectures without assembly for stores to device
// registers. Only amd64 and arm64 have that.
func (d Driver) Open(f *uverbs.File) (provider.Context, error) { return d.open(f, mmio.Ordered) }

// open is Open. ordered reports that stores to registers are ordered for a device.
func (Driver) open(f *uverbs.File, ordered bool) (provider.Context, error) {
	if !ordered {
		return nil, unsupported("this build for %s has no ordered stores to device registers (only amd64 and arm64 without the tag purego)", runtime.GOARCH)
	}
	c := &Context{KernelObjects: provider.KernelObjects{File: f}, pageSize: os.Getpagesize()}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// open makes the context of the kernel and maps its pages, except the pages of doorbells.
func (c *Context) open() error {
	req := abi.BnxtReUctxReq{CompMask: abi.BNXT_RE_COMP_MASK_REQ_UCNTX_POW2_SUPPORT | abi.BNXT_RE_COMP_MASK_REQ_UCNTX_VAR_WQE_SUPPORT}
	var resp abi.BnxtReUctxResp
	if _, err := c.File.GetContext(uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	if err := c.caps.fromContext(&resp, c.pageSize); err != nil {
		return err
	}
	var packets abi.BnxtReQueryDeviceExResp
	attr, err := c.File.QueryDeviceEx(uverbs.Driver{Out: abi.Bytes(&packets)})
	if err != nil {
		return fmt.Errorf("query bnxt_re device: %w", err)
	}
	if err := c.caps.fromDevice(&attr, &packets); err != nil {
		return err
	}
	if err := c.shared.open(c.File, c.pageSize); err != nil {
		return err
	}
	if c.caps.paced {
		return c.pacing.open(c.File, c.pageSize)
	}
	return nil
}

// unsupported returns an error that wraps errors.ErrUnsupported.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("bnxt_re: "+format+": %w", append(args, errors.ErrUnsupported)...)
}
