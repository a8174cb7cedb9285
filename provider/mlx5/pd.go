// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// pd is a protection domain.
type pd struct {
	file   *uverbs.File
	handle uint32
	num    uint32 // the device's

	mu       sync.Mutex
	scatters int  // QPs that may get data in their completions
	unmapped bool // there has been memory that only the device can write to
}

var _ provider.UnmappedPD = (*pd)(nil)

// AddUnmapped keeps data out of the completions of QPs that are made later. It fails if
// a QP is there already whose completions may have data.
func (p *pd) AddUnmapped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scatters > 0 {
		return fmt.Errorf("mlx5: %d QPs of the PD get short data in completions (QPConfig.NoScatterToCQE): %w", p.scatters, syscall.EBUSY)
	}
	p.unmapped = true
	return nil
}

// addScatter counts a QP whose completions may have data. It returns false if there
// must be none.
func (p *pd) addScatter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unmapped {
		return false
	}
	p.scatters++
	return true
}

func (p *pd) dropScatter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scatters--
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
