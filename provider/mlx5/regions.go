// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"sync"

	"purerdma/provider"
)

// regions finds the memory of the context's memory regions by their keys, for data
// that completions bring: what a request names is a key and an address of the
// region's own, of which only this knows the memory.
type regions struct {
	mu    sync.RWMutex
	byKey map[uint32]region
}

type region struct {
	iova   uint64
	mem    []byte
	access provider.Access
}

// write copies data to an address of a region. It returns false if there is no such
// region, or the data is not all within it.
func (r *regions) write(lkey uint32, addr uint64, data []byte) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.byKey[lkey]
	off := addr - m.iova
	if m.access&provider.LocalWrite == 0 || off > uint64(len(m.mem)) || uint64(len(m.mem))-off < uint64(len(data)) {
		return false
	}
	copy(m.mem[off:], data)
	return true
}

func (r *regions) set(lkey uint32, m region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = make(map[uint32]region)
	}
	r.byKey[lkey] = m
}

// take removes a region. Nobody writes to it any more when it returns.
func (r *regions) take(lkey uint32) region {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.byKey[lkey]
	delete(r.byKey, lkey)
	return m
}

// knownMR is a memory region that regions has.
type knownMR struct {
	provider.MR
	regions *regions
}

// RegMR registers memory.
func (c *Context) RegMR(cfg *provider.MRConfig) (provider.MR, error) {
	mr, err := provider.Plain{File: c.file}.RegMR(cfg)
	if err != nil {
		return nil, err
	}
	c.regions.set(mr.LKey(), region{cfg.IOVA, cfg.Mem, cfg.Access})
	return &knownMR{mr, &c.regions}, nil
}

// Reregister is not for concurrent calls.
func (m *knownMR) Reregister(cfg *provider.MRConfig, mask provider.MRMask) error {
	known := m.regions.take(m.LKey())
	err := m.MR.Reregister(cfg, mask)
	if err == nil && mask&provider.MRMem != 0 {
		known.iova, known.mem = cfg.IOVA, cfg.Mem
	}
	if err == nil && mask&provider.MRAccess != 0 {
		known.access = cfg.Access
	}
	m.regions.set(m.LKey(), known)
	return err
}

// Close deregisters the region.
func (m *knownMR) Close() error {
	// The kernel may give the key to another region at once.
	key := m.LKey()
	known := m.regions.take(key)
	err := m.MR.Close()
	if err != nil {
		m.regions.set(key, known)
	}
	return err
}
