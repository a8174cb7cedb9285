// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
	"syscall"

	"purerdma/abi"
)

// Advice names a future use of on-demand memory: enum ib_uverbs_advise_mr_advice of
// rdma/ib_user_ioctl_verbs.h.
type Advice uint32

// Advice for Advise.
const (
	Prefetch        Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
	PrefetchWrite   Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
	PrefetchNoFault Advice = abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
)

// Advise announces how the program will use pieces of memory with the right OnDemand
// (ibv_advise_mr(3)). With wait it returns after the device has followed the advice. It refuses
// pieces of other memory with EINVAL, because they crash the kernel in rxe of Linux 7.
func (p *PD) Advise(advice Advice, wait bool, pieces ...SGE) error {
	// Attached, so that the kernel does not reuse the handle for another PD.
	err := p.attach(kindAdvice)
	if err == nil {
		err = p.advise(advice, wait, pieces)
		p.detach(kindAdvice)
	}
	return p.dev.opError("advise on memory of", err)
}

func (p *PD) advise(advice Advice, wait bool, pieces []SGE) error {
	// Locked, so that a key is not reused for other memory.
	p.onDemand.mu.RLock()
	defer p.onDemand.mu.RUnlock()
	list := make([]abi.UverbsSGE, len(pieces))
	for i, s := range pieces {
		// The kernel refuses a device without on-demand memory.
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

// onDemand lists the on-demand memory of a PD, which Advise accepts.
type onDemand struct {
	mu  sync.RWMutex
	mrs map[uint32]bool // by lkey. It is nil until the first registration
}

// add lists m if it is on-demand memory.
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

// remove removes m from the list. It waits for advice that is in progress.
func (o *onDemand) remove(m *MR) {
	if !m.onDemand {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mrs, m.LKey())
}
