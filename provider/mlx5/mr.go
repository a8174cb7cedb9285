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

// Reregister is not for concurrent calls. It waits for polls that write to the memory.
func (m *mr) Reregister(cfg *provider.MRConfig, mask provider.MRMask) error {
	to := m.pd
	if mask&provider.MRPD != 0 {
		var ok bool
		if to, ok = cfg.PD.(*pd); !ok {
			return fmt.Errorf("mlx5: PD: %w: %w", errOtherDriver, syscall.EINVAL)
		}
	}
	m.pd.removeRegion(m.known)
	err := m.MR.Reregister(cfg, mask)
	if err == nil {
		next := *m.known
		next.key = uint64(m.LKey())
		if mask&provider.MRMem != 0 {
			next.iova, next.mem = cfg.IOVA, cfg.Mem
		}
		if mask&provider.MRAccess != 0 {
			next.access = cfg.Access
		}
		m.pd, m.known = to, &next
	}
	m.pd.regions.add(m.known)
	return err
}

// Close deregisters the region. It waits for polls that write to the memory.
func (m *mr) Close() error {
	// First: the kernel may give the key to another region at once.
	m.pd.removeRegion(m.known)
	// The memory of a region that was destroyed with the context may also be reused, so no poll may
	// find it.
	err := m.pd.ctx.file.IgnoreGone(m.MR.Close())
	if err != nil {
		m.pd.regions.add(m.known)
	}
	return err
}
