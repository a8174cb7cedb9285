// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"syscall"

	"purerdma/provider"
)

// mr is a memory region that is registered with its PD, so that polls can write to it.
type mr struct {
	provider.MR
	pd    *pd
	known *region
}

// RegMR registers memory.
func (c *Context) RegMR(cfg *provider.MRConfig) (provider.MR, error) {
	p, ok := cfg.PD.(*pd)
	if !ok {
		return nil, fmt.Errorf("mlx5: PD: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	k, err := provider.KernelObjects{File: c.file}.RegMR(cfg)
	if err != nil {
		return nil, err
	}
	m := &mr{k, p, &region{uint64(k.LKey()), cfg.IOVA, cfg.Mem, cfg.Access}}
	p.regions.add(m.known)
	return m, nil
}

// Reregister is not for concurrent calls. Until it returns, polls write to the memory of before. It
// waits for polls that still do.
func (m *mr) Reregister(cfg *provider.MRConfig, mask provider.MRMask) error {
	to := m.pd
	if mask&provider.MRPD != 0 {
		var ok bool
		if to, ok = cfg.PD.(*pd); !ok {
			return fmt.Errorf("mlx5: PD: %w: %w", errOtherDriver, syscall.EINVAL)
		}
	}
	if err := m.MR.Reregister(cfg, mask); err != nil {
		return err
	}
	from, old := m.pd, m.known
	next := *old
	next.key = uint64(m.LKey())
	if mask&provider.MRMem != 0 {
		next.iova, next.mem = cfg.IOVA, cfg.Mem
	}
	if mask&provider.MRAccess != 0 {
		next.access = cfg.Access
	}
	m.pd, m.known = to, &next
	to.regions.add(m.known)
	from.removeRegion(old)
	return nil
}

// Close deregisters the region. Polls write to the memory until the kernel has deregistered it,
// because the region lives on if the kernel refuses. Close waits for polls that still do, and only
// then does the memory belong to the caller.
func (m *mr) Close() error {
	// The memory of a region that was destroyed with the context may also be reused, so no poll may
	// find it.
	if err := m.pd.ctx.file.IgnoreGone(m.MR.Close()); err != nil {
		return err
	}
	m.pd.removeRegion(m.known)
	return nil
}
