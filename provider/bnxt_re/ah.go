// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// ah is an address handle. The adapter has the address, and requests name it by its number.
type ah struct {
	file   *uverbs.File
	handle uint32
	num    uint32
}

// CreateAH makes an address handle. The address is global.
func (c *Context) CreateAH(cfg *provider.AHConfig) (provider.AH, error) {
	if !cfg.Attr.Global {
		return nil, fmt.Errorf("bnxt_re: address without a GID: %w", syscall.EINVAL)
	}
	s := &c.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := c.File.CreateAH(cfg.PD.Handle(), provider.AHAttrToKernel(&cfg.Attr), 0, uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	num := atomic.LoadUint32((*uint32)(unsafe.Add(base(s.mapping), abi.BNXT_RE_AVID_OFFT)))
	return &ah{file: c.File, handle: h, num: num & numMask}, nil
}

// Close destroys the AH.
func (a *ah) Close() error { return a.file.DestroyAH(a.handle) }
