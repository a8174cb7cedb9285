// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
)

// SRQConfig configures an SRQ (struct ibv_srq_init_attr of ibv_create_srq(3)).
type SRQConfig struct {
	MaxWR  int // receives that must fit; 0 means 128
	MaxSGE int // elements of one receive; 0 means 2
	Limit  int // see SRQAttr
	// XRCD and CQ make it an SRQ of an XRC domain. Requests of XRC name it by Num, and its receives
	// complete on CQ. Both are set, or none.
	XRCD *XRCD
	CQ   *CQ
	// Dropped, if not nil, is called with the ID of each receive whose completion is removed from a
	// CQ, because its QP is closed or reset (QP.Close). No poll returns the completion. The memory of
	// the receive belongs to the program again. So each receive that a message takes completes or is
	// dropped, unless the CQ loses completions (ErrOverrun) or the driver loses the receive
	// (docs/reference/driver-faults.md).
	//
	// Dropped runs during QP.Close and QP.Modify, and for several QPs at a time. Locks of the CQ and
	// the SRQ are held, so it must not block, or call methods of the CQ, the SRQ or the QP. Receives
	// of XRC complete on the CQ of the SRQ, and stay there when a QP is closed.
	Dropped func(id uint64)
}

// SRQ is a shared receive queue (ibv_create_srq(3)). Messages to any of its QPs take their receives
// from it. Its methods may be called concurrently.
type SRQ struct {
	pd     *PD
	xrcd   *XRCD // or nil, together with cq
	cq     *CQ
	p      provider.SRQ
	refs   refs
	handle uint64 // user handle
	leak   *leak.Entry

	mu       sync.Mutex
	released func() // or nil
}

// CreateSRQ makes a shared receive queue. The caller closes it.
func (p *PD) CreateSRQ(cfg SRQConfig) (*SRQ, error) {
	s, err := p.createSRQ(cfg)
	return s, p.dev.opError("create SRQ on", err)
}

func (p *PD) createSRQ(cfg SRQConfig) (*SRQ, error) {
	if cfg.MaxWR == 0 {
		cfg.MaxWR = 128
	}
	if cfg.MaxSGE == 0 {
		cfg.MaxSGE = 2
	}
	if err := p.dev.checkSRQ(&cfg); err != nil {
		return nil, err
	}
	s := &SRQ{pd: p, xrcd: cfg.XRCD, cq: cfg.CQ}
	pcfg := &provider.SRQConfig{PD: p.p, MaxWR: cfg.MaxWR, MaxSGE: cfg.MaxSGE, Limit: cfg.Limit, Dropped: cfg.Dropped}
	if s.xrcd != nil || s.cq != nil {
		if s.xrcd == nil || s.cq == nil || s.xrcd.dev.deviceContext != p.dev || s.cq.dev != p.dev {
			return nil, fmt.Errorf("an SRQ of XRC has a domain and a CQ of its device: %w", syscall.EINVAL)
		}
		pcfg.XRCD, pcfg.CQ = s.xrcd.p, s.cq.p
	}
	if err := s.useParents(); err != nil {
		return nil, err
	}
	s.handle = p.dev.objects.add(s)
	pcfg.UserHandle = s.handle
	var err error
	if s.p, err = p.dev.ctx.CreateSRQ(pcfg); err != nil {
		p.dev.objects.remove(s.handle)
		return nil, errors.Join(p.dev.queueError(err), s.dropParents())
	}
	s.leak = leak.Track("SRQ", p.dev.info.Name)
	p.dev.objects.made(s.handle)
	return s, nil
}

// useParents counts the SRQ as a user of its parents.
func (s *SRQ) useParents() error {
	if err := s.pd.attach(kindSRQ); err != nil || s.xrcd == nil {
		return err
	}
	if err := s.xrcd.add(kindSRQ); err != nil {
		return errors.Join(err, s.pd.detach(kindSRQ))
	}
	if err := s.cq.add(kindSRQ); err != nil {
		s.xrcd.drop(kindSRQ)
		return errors.Join(err, s.pd.detach(kindSRQ))
	}
	return nil
}

// dropParents is the inverse of useParents.
func (s *SRQ) dropParents() error {
	var err error
	if s.xrcd != nil {
		err = errors.Join(s.cq.drop(kindSRQ), s.xrcd.drop(kindSRQ))
	}
	return errors.Join(err, s.pd.detach(kindSRQ))
}

// Num returns the number by which requests of XRC name the SRQ, 0 if it is in no XRC
// domain.
func (s *SRQ) Num() uint32 {
	if x, ok := s.p.(provider.XRCSRQ); ok && s.xrcd != nil {
		return x.Num()
	}
	return 0
}

// PD returns the protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// Attr returns the capacities, which may exceed the requested ones. Only Query returns a valid
// Limit.
func (s *SRQ) Attr() SRQAttr { return s.p.Attr() }

// Provider returns the provider's SRQ, for extensions of one vendor.
func (s *SRQ) Provider() provider.SRQ { return s.p }

// PostRecv posts receives, in order (ibv_post_srq_recv(3)). It returns the number of posted
// receives. If it is less than len(wrs), the error is about the first receive that was not posted.
// ErrFull means that the queue has no room. The requests and their slices may be reused at once. It
// allocates nothing.
func (s *SRQ) PostRecv(wrs []RecvWR) (int, error) {
	n, err := s.p.PostRecv(mem.NoEscape(wrs))
	if err != nil {
		return n, s.pd.dev.opError("post receive to SRQ of", sized(err, "MaxWR", s.Attr().MaxWR))
	}
	return n, nil
}

// Modify changes the attributes that mask names: the size, if the device can do
// that, or the limit (ibv_modify_srq(3)).
func (s *SRQ) Modify(attr SRQAttr, mask SRQAttrMask) error {
	if err := s.check(&attr, mask); err != nil {
		return s.pd.dev.opError("modify SRQ of", err)
	}
	return s.pd.dev.opError("modify SRQ of", s.p.Modify(&attr, mask))
}

func (s *SRQ) check(attr *SRQAttr, mask SRQAttrMask) error {
	size := s.p.Attr().MaxWR
	if mask&SRQAttrMaxWR != 0 {
		size = attr.MaxWR
		if err := checkLimits(limit{"MaxWR", size, s.pd.dev.attr.MaxSRQWR}); err != nil {
			return err
		}
	}
	if mask&SRQAttrLimit != 0 {
		return checkLimits(limit{"Limit", attr.Limit, size})
	}
	return nil
}

// Query queries the attributes from the kernel (ibv_query_srq(3)).
func (s *SRQ) Query() (SRQAttr, error) {
	a, err := s.p.Query()
	return a, s.pd.dev.opError("query SRQ of", err)
}

// Close releases the SRQ (ibv_destroy_srq(3)), which takes no more QPs. It is destroyed at once, or
// with the Close of the last QP on it, which then returns the error of both. Close may be called
// more than once. After an error it tries again. Posted receives that have not completed when the
// SRQ is destroyed never will.
func (s *SRQ) Close() error {
	err := s.refs.close(s)
	return s.pd.dev.opError("destroy SRQ of", errors.Join(err, s.retryParents()))
}

func (s *SRQ) destroy() error { return s.pd.dev.destroyed(s.p.Close()) }

// onRelease implements bridge.Verbs.OnRelease.
func (s *SRQ) onRelease(f func()) {
	s.mu.Lock()
	s.released = f
	s.mu.Unlock()
}

// unused implements bridge.Verbs.Unused.
func (s *SRQ) unused() (n int, ok bool) {
	u, ok := s.p.(provider.UnusedReporter)
	if !ok {
		return 0, false
	}
	return u.Unused(), true
}

func (s *SRQ) release() error {
	s.mu.Lock()
	f := s.released
	s.mu.Unlock()
	if f != nil {
		f()
	}
	s.pd.dev.objects.remove(s.handle)
	s.leak.Done()
	return s.dropParents()
}

// add counts a QP of the SRQ.
func (s *SRQ) add(k childKind) error { return s.refs.add(k) }

// drop removes a QP from the count of the SRQ. The last one of a closed SRQ destroys the SRQ.
func (s *SRQ) drop(k childKind) error { return s.refs.drop(k) }

// retry destroys a closed SRQ, or its parents, if an earlier attempt has failed.
func (s *SRQ) retry() error { return errors.Join(s.refs.retry(), s.retryParents()) }

// retryParents destroys the closed parents of a destroyed SRQ whose destruction has failed.
func (s *SRQ) retryParents() error {
	if !s.refs.isEnded() {
		return nil
	}
	err := s.pd.retry()
	if s.xrcd != nil {
		err = errors.Join(err, s.cq.retry(), s.xrcd.retry())
	}
	return err
}
