// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
)

// Advice is how on-demand memory will be used: enum ib_uverbs_advise_mr_advice of
// rdma/ib_user_ioctl_verbs.h.
type Advice uint32

// What Advise can say.
const (
	Prefetch        Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
	PrefetchWrite   Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
	PrefetchNoFault Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
)

// Advise says how pieces of memory with the right OnDemand will be used
// (ibv_advise_mr(3)). With wait it returns when the advice has been followed. Pieces
// of other memory are refused, with EINVAL: rxe of Linux 7 would take the kernel down.
func (p *PD) Advise(advice Advice, wait bool, pieces ...SGE) error {
	// Held, so that the kernel does not give the handle to another PD.
	err := p.attach(kindAdvice)
	if err == nil {
		err = p.advise(advice, wait, pieces)
		p.detach(kindAdvice)
	}
	return p.dev.opError("advise on memory of", err)
}

func (p *PD) advise(advice Advice, wait bool, pieces []SGE) error {
	// Held, so that a key does not become that of other memory.
	p.onDemand.mu.RLock()
	defer p.onDemand.mu.RUnlock()
	list := make([]abi.UverbsSGE, len(pieces))
	for i, s := range pieces {
		// A device without on-demand memory says so itself.
		if !p.onDemand.mrs[s.LKey] && p.dev.attr.ODP.Supported {
			return fmt.Errorf("lkey %#x is of no on-demand memory of this PD: %w", s.LKey, syscall.EINVAL)
		}
		list[i] = abi.UverbsSGE{Addr: s.Addr, Length: s.Length, LKey: s.LKey}
	}
	var flags uint32
	if wait {
		flags = abi.IB_UVERBS_ADVISE_MR_FLAG_FLUSH
	}
	return p.dev.file.AdviseMR(p.p.Handle(), uint32(advice), flags, list)
}

// onDemand is the memory of a PD that advice may be about.
type onDemand struct {
	mu  sync.RWMutex
	mrs map[uint32]bool // by lkey; nil if there has never been any
}

// add makes m known, if it is on-demand memory.
func (o *onDemand) add(m *MR) {
	if !m.onDemand {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mrs == nil {
		o.mrs = map[uint32]bool{}
	}
	o.mrs[m.LKey()] = true
}

// remove takes it back, after advice that is under way.
func (o *onDemand) remove(m *MR) {
	if !m.onDemand {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mrs, m.LKey())
}
