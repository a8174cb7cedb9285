// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"errors"
	"fmt"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// ah is an address handle. The kernel keeps the address. Work requests name it by a number.
type ah struct {
	file   *uverbs.File
	handle uint32
	num    uint32
}

// CreateAH makes an address handle.
func (c *Context) CreateAH(cfg *provider.AHConfig) (provider.AH, error) {
	var resp abi.RxeCreateAHResp
	h, err := c.File.CreateAH(cfg.PD.Handle(), provider.AHAttrToKernel(&cfg.Attr), 0, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	if resp.AHNum == 0 {
		// Before Linux 5.18 requests had to carry the whole address.
		return nil, errors.Join(fmt.Errorf("rxe of this kernel does not number address handles: %w", errors.ErrUnsupported),
			c.File.DestroyAH(h))
	}
	return &ah{file: c.File, handle: h, num: resp.AHNum}, nil
}

func (a *ah) Close() error { return a.file.DestroyAH(a.handle) }
