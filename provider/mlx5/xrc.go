// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"purerdma/provider"
	"purerdma/uverbs"
)

// xrcd is an XRC domain.
type xrcd struct {
	file   *uverbs.File
	handle uint32
}

var _ provider.XRCOpener = (*Context)(nil)

// OpenXRCD opens an XRC domain: see provider.XRCOpener.
func (c *Context) OpenXRCD(fd int32, flags uint32) (provider.XRCD, error) {
	h, err := c.file.OpenXRCD(fd, flags, uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	return &xrcd{file: c.file, handle: h}, nil
}

func (x *xrcd) Handle() uint32 { return x.handle }
func (x *xrcd) Close() error   { return x.file.CloseXRCD(x.handle) }
