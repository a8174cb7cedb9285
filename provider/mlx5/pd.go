// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// pd is a protection domain.
type pd struct {
	file   *uverbs.File
	handle uint32
	num    uint32 // the device's
}

// AllocPD allocates a protection domain.
func (c *Context) AllocPD() (provider.PD, error) {
	var resp abi.Mlx5AllocPDResp
	h, err := c.file.AllocPD(uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	return &pd{file: c.file, handle: h, num: resp.PDN}, nil
}

func (p *pd) Handle() uint32 { return p.handle }
func (p *pd) Close() error   { return p.file.DeallocPD(p.handle) }
