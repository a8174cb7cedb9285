// SPDX-License-Identifier: Apache-2.0

package siw

import (
	"errors"
	"fmt"
	"net"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/provider"
	"purerdma/uverbs"
)

// srq is a shared receive queue. When one of its QPs fails, nothing in it is flushed, because it
// also serves the other QPs.
type srq struct {
	file   *uverbs.File
	handle uint32
	leak   *leak.Entry
	// dropped is provider.SRQConfig.Dropped.
	dropped func(id uint64)

	// Every command also holds the lock of the queue, because the kernel reuses the handle for the
	// next SRQ as soon as this one is destroyed.
	rq     recvQueue
	closed bool
}

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	var resp abi.SiwUrespCreateSRQ
	k, err := c.File.CreateSRQ(uverbs.SRQConfig{
		Type:       abi.IB_UVERBS_SRQT_BASIC,
		PD:         cfg.PD.Handle(),
		UserHandle: cfg.UserHandle,
		MaxWR:      uint32(cfg.MaxWR),
		MaxSGE:     uint32(cfg.MaxSGE),
		Limit:      uint32(cfg.Limit),
	}, uverbs.Driver{Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	s := &srq{file: c.File, handle: k.Handle, dropped: cfg.Dropped}
	if err := s.rq.open(c.File, resp.SRQKey, resp.NumRQE, uint32(cfg.MaxWR), k.MaxSGE, cfg.MaxSGE); err != nil {
		c.File.DestroySRQ(k.Handle)
		return nil, err
	}
	s.leak = leak.Track("siw SRQ", c.File.Info().Name)
	return s, nil
}

func (s *srq) Handle() uint32 { return s.handle }

func (s *srq) Attr() provider.SRQAttr {
	return provider.SRQAttr{MaxWR: s.rq.slots.Len(), MaxSGE: s.rq.maxSGE}
}

// usable returns the reason why the SRQ cannot be used, or nil. The caller holds the lock.
func (s *srq) usable() error {
	if s.closed || s.file.Closed() {
		return net.ErrClosed
	}
	return nil
}

func (s *srq) PostRecv(wrs []provider.RecvWR) (int, error) {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, err
	}
	for i := range wrs {
		if err := s.rq.post(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

func (s *srq) Modify(attr *provider.SRQAttr, mask provider.SRQAttrMask) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if mask&provider.SRQAttrMaxWR != 0 {
		return fmt.Errorf("siw: another size of a shared receive queue: %w", errors.ErrUnsupported)
	}
	return s.file.ModifySRQ(&abi.UverbsModifySRQ{SRQHandle: s.handle, AttrMask: uint32(mask), SRQLimit: uint32(attr.Limit)}, uverbs.Driver{})
}

func (s *srq) Query() (provider.SRQAttr, error) {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if err := s.usable(); err != nil {
		return provider.SRQAttr{}, err
	}
	r, err := s.file.QuerySRQ(s.handle)
	if err != nil {
		return provider.SRQAttr{}, err
	}
	return provider.SRQAttr{MaxWR: int(r.MaxWR), MaxSGE: int(r.MaxSGE), Limit: int(r.SRQLimit)}, nil
}

func (s *srq) Close() error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := s.file.Destroyed(func() error { return s.file.DestroySRQ(s.handle) }); err != nil {
		return err
	}
	s.closed = true
	s.leak.Done()
	return s.rq.mapping.Close()
}
