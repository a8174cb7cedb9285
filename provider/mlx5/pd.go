// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// pd is a protection domain.
type pd struct {
	ctx     *Context
	handle  uint32
	num     uint32 // the device's
	regions regions

	mu       sync.Mutex
	scatters int         // QPs whose completions may have data for the PD's memory.
	unmapped bool        // there has been memory that only the device can write to
	cqs      map[*CQ]int // how many queues of the PD complete on each CQ: QPs, and SRQs of XRC
}

var _ provider.UnmappedPD = (*pd)(nil)

// AddUnmapped keeps data out of the completions of QPs that are made later on the PD or on its SRQs.
// It fails if a QP is there already whose completions may have data.
func (p *pd) AddUnmapped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scatters > 0 {
		return fmt.Errorf("mlx5: %d QPs of the PD or its SRQs get short data in completions (QPConfig.NoScatterToCQE): %w", p.scatters, syscall.EBUSY)
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

// addCQ counts a queue of the PD that completes on a CQ: polls of the CQ may write to the
// PD's memory from now on.
func (p *pd) addCQ(c *CQ) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cqs == nil {
		p.cqs = make(map[*CQ]int)
	}
	p.cqs[c]++
}

// dropCQ undoes addCQ. Polls of the CQ do not find the queue any more.
func (p *pd) dropCQ(c *CQ) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cqs[c]--; p.cqs[c] == 0 {
		delete(p.cqs, c)
	}
}

// removeRegion removes a region. After it returns, no poll writes to the memory, because a poll
// looks regions up and copies to them while it holds the lock of its CQ.
func (p *pd) removeRegion(m *region) {
	p.regions.remove(m)
	// Without p.mu from here on, because polls take the locks of SRQs, whose Close takes p.mu.
	for _, c := range p.polled() {
		c.awaitCopies()
	}
}

// polled returns the CQs that queues of the PD complete on.
func (p *pd) polled() []*CQ {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.cqs))
}

// AllocPD allocates a protection domain.
func (c *Context) AllocPD() (provider.PD, error) {
	var resp abi.Mlx5AllocPDResp
	h, err := c.file.AllocPD(uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	return &pd{ctx: c, handle: h, num: resp.PDN}, nil
}

func (p *pd) Handle() uint32 { return p.handle }
func (p *pd) Close() error   { return p.ctx.file.DeallocPD(p.handle) }
