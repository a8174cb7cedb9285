// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// srq is a shared receive queue. The adapter takes the slots of the ring in order. A slot has a tag, by which the
// completion names the receive. Tags are used again in the order in which their receives complete.
type srq struct {
	ctx     *Context
	handle  uint32
	num     uint32
	attr    provider.SRQAttr
	dropped func(id uint64)
	leak    *leak.Entry

	mu     sync.Mutex // of commands
	closed bool

	lock   spin.Lock   // guards everything below.
	paused bool        // Posts are refused.
	region *mem.Region // nil after Close
	buf    unsafe.Pointer
	slot   uint32   // of the next receive
	epoch  uint64   // bellEpoch in every second pass around the ring
	first  uint32   // the tag of the next receive.
	last   uint32   // the tag that was freed last
	tags   []srqTag // by tag
	used   uint32   // receives that have not completed.
	limit  uint32   // see SRQAttr.
	arm    bool     // the adapter gets the limit when more receives than it are posted
	ring   ringer
	toggle togglePage
}

// srqTag is the record of a tag.
type srqTag struct {
	id     uint64
	next   uint32 // the tag to be used after this one
	posted bool
}

var _ provider.SRQ = (*srq)(nil)

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	if cfg.XRCD != nil {
		return nil, unsupported("shared receive queues of XRC")
	}
	if cfg.MaxWR < 1 || cfg.MaxWR > c.caps.maxSRQWR || cfg.MaxSGE < 0 || cfg.MaxSGE > c.caps.maxSRQSGE {
		return nil, fmt.Errorf("bnxt_re: shared receive queue of %d receives of %d elements, at most %d of %d: %w",
			cfg.MaxWR, cfg.MaxSGE, c.caps.maxSRQWR, c.caps.maxSRQSGE, syscall.EINVAL)
	}
	if err := c.needDoorbells(); err != nil {
		return nil, err
	}
	s := &srq{ctx: c, dropped: cfg.Dropped, ring: c.ringer()}
	if err := s.create(cfg); err != nil {
		return nil, errors.Join(err, s.free())
	}
	s.leak = leak.Track("bnxt_re SRQ", c.File.Info().Name)
	return s, nil
}

func (s *srq) create(cfg *provider.SRQConfig) (err error) {
	depth := s.ctx.caps.depth(cfg.MaxWR+1, s.ctx.caps.maxSRQWR+1)
	size := alignUp(depth*srqSize, s.ctx.pageSize)
	if s.region, err = mem.Alloc(size); err != nil {
		return fmt.Errorf("bnxt_re: shared receive queue of %d bytes: %w", size, err)
	}
	s.buf = unsafe.Pointer(unsafe.SliceData(s.region.Bytes()))
	s.tags = make([]srqTag, depth)
	for i := range s.tags {
		s.tags[i].next = uint32(i) + 1
	}
	s.last = uint32(depth) - 1
	s.limit = uint32(cfg.Limit)
	s.attr = provider.SRQAttr{MaxWR: depth - 1, MaxSGE: max(cfg.MaxSGE, 1)}
	req := abi.BnxtReSRQReq{SRQVA: abi.NewSlicePointer(s.region.Bytes()), SRQHandle: cfg.UserHandle}
	var resp abi.BnxtReSRQResp
	k, err := s.ctx.File.CreateSRQ(uverbs.SRQConfig{
		Type:       abi.IB_UVERBS_SRQT_BASIC,
		PD:         cfg.PD.Handle(),
		UserHandle: cfg.UserHandle,
		MaxWR:      uint32(cfg.MaxWR),
		MaxSGE:     uint32(cfg.MaxSGE),
		Limit:      uint32(cfg.Limit),
	}, uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	s.handle, s.num = k.Handle, resp.SRQID
	if s.num&^numMask != 0 {
		err = unsupported("SRQ %#x", s.num)
	} else if resp.CompMask&abi.BNXT_RE_SRQ_TOGGLE_PAGE_SUPPORT != 0 {
		err = s.toggle.open(s.ctx.File, abi.BNXT_RE_SRQ_TOGGLE_MEM, s.num, s.ctx.pageSize)
	}
	if err != nil {
		return errors.Join(err, s.ctx.File.DestroySRQ(s.handle))
	}
	return nil
}

// free frees the memory, which the adapter does not use.
func (s *srq) free() error {
	err := s.toggle.close()
	if s.region != nil {
		err = errors.Join(err, s.region.Free())
		s.region = nil
	}
	return err
}

// Handle is the kernel's handle of the SRQ.
func (s *srq) Handle() uint32 { return s.handle }

// Attr returns how much fits.
func (s *srq) Attr() provider.SRQAttr { return s.attr }

// PostRecv posts receives, in order. It does not allocate.
func (s *srq) PostRecv(wrs []provider.RecvWR) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.paused || s.ctx.File.Closed() {
		return 0, net.ErrClosed
	}
	n, rung := 0, 0
	var err error
	for n < len(wrs) {
		if err = s.post(&wrs[n]); err != nil {
			break
		}
		n++
		if s.arm && s.used > s.limit {
			s.arm = false
			s.ringPosted()
			s.ring.ring(bell(bellSRQArm, s.num) | s.toggle.bits() | uint64(s.limit))
			rung = n
		}
	}
	if n > rung {
		s.ringPosted()
	}
	return n, err
}

// ringPosted passes the posted receives to the adapter. The caller holds the lock.
func (s *srq) ringPosted() {
	s.ring.ring(bell(bellSRQ, s.num) | s.epoch | uint64(s.slot))
}

// post writes one receive into a slot. The caller holds the lock.
func (s *srq) post(wr *provider.RecvWR) error {
	sg := wr.SGList
	if err := checkElements(sg, s.attr.MaxSGE); err != nil {
		return err
	}
	tag := s.first
	if tag == s.last {
		return provider.ErrFull
	}
	p := unsafe.Add(s.buf, uintptr(s.slot)*srqSize)
	clear(unsafe.Slice((*byte)(p), srqSize))
	for i := range sg {
		putSGE(unsafe.Add(p, (headerSlots+i)<<slotShift), sg[i].Addr, sg[i].Length, sg[i].LKey)
	}
	put32(p, 0, opReceive|uint32(headerSlots+len(sg))<<headSlots)
	put32(p, rqeIndex, tag)
	t := &s.tags[tag]
	t.id, t.posted = wr.ID, true
	s.first = t.next
	s.used++
	if s.slot++; s.slot == uint32(len(s.tags)) {
		s.slot = 0
		s.epoch ^= bellEpoch
	}
	return nil
}

// complete removes the receive with a tag, which a completion names, and returns its ID. It returns false for a tag
// that no receive has.
func (s *srq) complete(tag uint32) (id uint64, ok bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if tag >= uint32(len(s.tags)) || !s.tags[tag].posted {
		return 0, false
	}
	t := &s.tags[tag]
	t.posted = false
	s.tags[s.last].next = tag
	s.last = tag
	s.used--
	return t.id, true
}

// drop removes a receive whose completion will never be polled, and reports it.
func (s *srq) drop(tag uint32) {
	if id, ok := s.complete(tag); ok && s.dropped != nil {
		s.dropped(id)
	}
}

// Modify sets the limit. The kernel's driver passes it to the adapter at once. Like libbnxt_re, the next post passes it
// again when more receives are posted. The size cannot be changed.
func (s *srq) Modify(attr *provider.SRQAttr, mask provider.SRQAttrMask) error {
	if mask&provider.SRQAttrMaxWR != 0 {
		return unsupported("another size of a shared receive queue")
	}
	if mask&provider.SRQAttrLimit == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if attr.Limit < 0 || attr.Limit > s.attr.MaxWR {
		return fmt.Errorf("bnxt_re: limit of %d receives, the queue has %d: %w", attr.Limit, s.attr.MaxWR, syscall.EINVAL)
	}
	cmd := abi.UverbsModifySRQ{SRQHandle: s.handle, AttrMask: uverbs.SRQLimit, SRQLimit: uint32(attr.Limit)}
	if err := s.ctx.File.ModifySRQ(&cmd, uverbs.Driver{}); err != nil {
		return err
	}
	s.lock.Lock()
	s.limit, s.arm = uint32(attr.Limit), true
	s.lock.Unlock()
	return nil
}

// Query queries the limit from the kernel. The capacities are Attr's.
func (s *srq) Query() (provider.SRQAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return provider.SRQAttr{}, net.ErrClosed
	}
	r, err := s.ctx.File.QuerySRQ(s.handle)
	if err != nil {
		return provider.SRQAttr{}, err
	}
	attr := s.attr
	attr.Limit = int(r.SRQLimit)
	return attr, nil
}

// Close destroys the SRQ. While the command runs, no doorbell is rung, because the kernel may reuse the number.
func (s *srq) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.pause(true)
	if err := s.ctx.File.Destroyed(func() error { return s.ctx.File.DestroySRQ(s.handle) }); err != nil {
		s.pause(false)
		return err
	}
	s.closed = true
	s.leak.Done()
	return s.free()
}

// pause sets whether posts are refused.
func (s *srq) pause(v bool) {
	s.lock.Lock()
	s.paused = v
	s.lock.Unlock()
}
