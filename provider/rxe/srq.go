// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"fmt"
	"net"
	"sync/atomic"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/provider"
	"purerdma/uverbs"
)

// srq is a shared receive queue.
type srq struct {
	file   *uverbs.File
	handle uint32
	leak   *leak.Entry
	closed atomic.Bool

	rq     recvQueue
	broken error // why the ring is not the kernel's; guarded by rq.mu
}

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	var resp abi.RxeCreateSRQResp
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
	s := &srq{file: c.File, handle: k.Handle}
	// The kernel's numbers are not trusted, so the slots must have that room.
	if err := s.rq.open(c.File, resp.MI, int(min(k.MaxSGE, maxSlot))); err != nil {
		c.File.DestroySRQ(k.Handle)
		return nil, err
	}
	s.leak = leak.Track("rxe SRQ", c.File.Info().Name)
	return s, nil
}

func (s *srq) Handle() uint32 { return s.handle }

func (s *srq) Attr() provider.SRQAttr {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	return provider.SRQAttr{MaxWR: s.rq.ring.Cap(), MaxSGE: s.rq.maxSGE}
}

// usable returns the reason why the SRQ cannot be used, or nil. The caller holds the lock.
func (s *srq) usable() error {
	if s.broken != nil {
		return s.broken
	}
	if s.closed.Load() || s.file.Closed() {
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
	return s.rq.post(wrs)
}

// Unused implements provider.UnusedReporter. get_srq_wqe of rxe_resp.c takes the oldest receive.
func (s *srq) Unused() int {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if s.usable() != nil {
		return 0
	}
	return s.rq.ring.Count(s.rq.producer, s.rq.ring.LoadConsumer())
}

func (s *srq) Modify(attr *provider.SRQAttr, mask provider.SRQAttrMask) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	cmd := &abi.UverbsModifySRQ{
		SRQHandle: s.handle,
		AttrMask:  uint32(mask),
		MaxWR:     uint32(attr.MaxWR),
		SRQLimit:  uint32(attr.Limit),
	}
	// With a new size the kernel moves the unused receives to a new ring. It writes the place of
	// the ring to an address in the command, not to the response. The address is always required,
	// because the command is too short without it.
	var mi abi.RxeMminfo
	drv := abi.RxeModifySRQCmd{MmapInfoAddr: abi.NewPointer(&mi)}
	if err := s.file.ModifySRQ(cmd, uverbs.Driver{In: abi.Bytes(&drv)}); err != nil {
		return err
	}
	if mask&provider.SRQAttrMaxWR == 0 {
		return nil
	}
	old := s.rq.mapping
	if err := s.rq.open(s.file, mi, s.rq.maxSGE); err != nil {
		// The kernel no longer reads the mapped ring.
		s.broken = fmt.Errorf("shared receive queue was lost while it was resized: %w", err)
		return s.broken
	}
	return old.Close()
}

func (s *srq) Query() (provider.SRQAttr, error) {
	// Close waits for other commands, because the kernel reuses the handle for the next SRQ.
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	if s.closed.Load() {
		return provider.SRQAttr{}, net.ErrClosed
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
	if s.rq.mapping == nil {
		return nil
	}
	if err := s.file.Destroyed(func() error { return s.file.DestroySRQ(s.handle) }); err != nil {
		return err
	}
	s.closed.Store(true)
	m := s.rq.mapping
	s.rq.mapping = nil
	s.leak.Done()
	return m.Close()
}
