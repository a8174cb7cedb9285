// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"purerdma/internal/leak"
	"purerdma/provider"
)

const kindSRQ = "shared receive queues"

// SRQConfig says how to make an SRQ (struct ibv_srq_init_attr of
// ibv_create_srq(3)).
type SRQConfig struct {
	MaxWR  int // receives that must fit; 0 means 128
	MaxSGE int // elements of one receive; 0 means 2
	Limit  int // see SRQAttr
}

// SRQ is a shared receive queue: messages to any of its QPs take their receives
// from it (ibv_create_srq(3)). Its methods may be called concurrently.
type SRQ struct {
	pd     *PD
	p      provider.SRQ
	users  users
	handle uint64 // user handle
	leak   *leak.Entry
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
	if err := p.attach(kindSRQ); err != nil {
		return nil, err
	}
	s := &SRQ{pd: p}
	s.handle = p.dev.objects.add(s)
	var err error
	s.p, err = p.dev.ctx.CreateSRQ(&provider.SRQConfig{
		PD:         p.p,
		MaxWR:      cfg.MaxWR,
		MaxSGE:     cfg.MaxSGE,
		Limit:      cfg.Limit,
		UserHandle: s.handle,
	})
	if err != nil {
		p.dev.objects.remove(s.handle)
		p.detach(kindSRQ)
		return nil, err
	}
	s.leak = leak.Track("SRQ", p.dev.info.Name)
	return s, nil
}

// PD returns the protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// Attr returns how much fits, which may be more than was asked for. Limit is
// that of Query only.
func (s *SRQ) Attr() SRQAttr { return s.p.Attr() }

// Provider returns the provider's SRQ, for what only one vendor has.
func (s *SRQ) Provider() provider.SRQ { return s.p }

// PostRecv posts receives, in order (ibv_post_srq_recv(3)). It returns how many
// were posted: all of them, or those before the one that the error is about.
// ErrFull means that the queue has no room. The requests and their slices may be
// reused at once. It allocates nothing.
func (s *SRQ) PostRecv(wrs []RecvWR) (int, error) {
	n, err := s.p.PostRecv(wrs)
	if err != nil {
		return n, s.pd.dev.opError("post receive to SRQ of", err)
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

// Query asks the kernel for the attributes (ibv_query_srq(3)).
func (s *SRQ) Query() (SRQAttr, error) {
	a, err := s.p.Query()
	return a, s.pd.dev.opError("query SRQ of", err)
}

// Close destroys the SRQ (ibv_destroy_srq(3)). It may be called more than once;
// while there are QPs on it the error wraps EBUSY. Receives that are posted and
// have not completed never will.
func (s *SRQ) Close() error {
	return s.pd.dev.opError("destroy SRQ of", s.users.close(func() error {
		if err := s.pd.dev.destroyed(s.p.Close()); err != nil {
			return err
		}
		s.pd.dev.objects.remove(s.handle)
		s.leak.Done()
		return s.pd.detach(kindSRQ)
	}))
}
