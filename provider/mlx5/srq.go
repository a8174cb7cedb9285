// SPDX-License-Identifier: Apache-2.0

package mlx5

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
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// SRQ is a shared receive queue. The device takes its slots in the order in which they are linked.
type SRQ struct {
	ctx    *Context
	pd     *pd
	handle uint32
	num    uint32
	attr   provider.SRQAttr
	leak   *leak.Entry
	index  uint32 // user index, by which the completions of an XRC SRQ name it
	cq     *CQ    // of an XRC SRQ
	// dropped is provider.SRQConfig.Dropped.
	dropped func(id uint64)
	// recorded is nil if the receives are not recorded.
	recorded *recordedSRQ

	mu     sync.Mutex // of commands
	closed bool

	lock   spin.Lock // everything below
	list   srqList
	slots  unsafe.Pointer
	shift  uint8
	maxSGE uint32
	ids    []uint64 // of each slot's request
	posted uint32   // receives ever posted
	limit  uint32   // to be set when as many have been posted
	bell   *doorbell
	region *mem.Region // nil after Close
}

var _ provider.SRQ = (*SRQ)(nil)

// CreateSRQ makes a *SRQ, a shared receive queue. mlx5_ib does not set cfg.Limit, and an empty
// queue would be below it. Therefore PostRecv sets it when there are as many receives.
func (c *Context) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	s, err := c.createSRQ(cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Context) createSRQ(cfg *provider.SRQConfig) (_ *SRQ, err error) {
	shape, err := newSRQShape(cfg.MaxWR, cfg.MaxSGE, c.caps.maxSRQWR, c.caps.maxRQDesc)
	if err != nil {
		return nil, err
	}
	pd, ok := cfg.PD.(*pd)
	if !ok {
		return nil, fmt.Errorf("mlx5: PD: %w: %w", errOtherDriver, syscall.EINVAL)
	}
	s := &SRQ{ctx: c, pd: pd, index: noIndex, limit: uint32(cfg.Limit), dropped: cfg.Dropped}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.free())
		}
	}()
	if err := s.alloc(shape); err != nil {
		return nil, err
	}
	cmd := abi.Mlx5CreateSRQ{BufAddr: abi.NewPointer((*byte)(s.slots)), DBAddr: s.bell.kernel()}
	kcfg := uverbs.SRQConfig{
		Type:       abi.IB_UVERBS_SRQT_BASIC,
		PD:         pd.handle,
		UserHandle: cfg.UserHandle,
		// The kernel computes the same sizes from these.
		MaxWR:  uint32(shape.total() - 1),
		MaxSGE: uint32(shape.maxSGE),
		Limit:  uint32(cfg.Limit),
	}
	if cfg.XRCD != nil {
		cq, ok := cfg.CQ.(*CQ)
		if !ok || cq.ctx != c {
			return nil, fmt.Errorf("CQ of an XRC SRQ: %w", errOtherDriver)
		}
		kcfg.Type, kcfg.XRCD, kcfg.CQ = abi.IB_UVERBS_SRQT_XRC, cfg.XRCD.Handle(), cq.handle
		s.cq = cq
		pd.addCQ(cq)
		if s.index, err = c.resources.add(nil, s); err != nil {
			return nil, err
		}
		cmd.UIdx = s.index
	}
	var resp abi.Mlx5CreateSRQResp
	k, err := c.file.CreateSRQ(kcfg, uverbs.Driver{In: abi.Bytes(&cmd), Out: abi.Bytes(&resp)})
	if err != nil {
		return nil, err
	}
	s.handle, s.num = k.Handle, resp.SRQN
	s.record()
	s.leak = leak.Track("mlx5 SRQ", c.file.Info().Name)
	return s, nil
}

// alloc makes the memory of the queue.
func (s *SRQ) alloc(shape srqShape) error {
	var err error
	if s.region, err = mem.Alloc(shape.bytes()); err != nil {
		return fmt.Errorf("shared receive queue of %d bytes: %w", shape.bytes(), err)
	}
	if s.bell, err = s.ctx.allocDB(); err != nil {
		return err
	}
	s.slots = unsafe.Pointer(unsafe.SliceData(s.region.Bytes()))
	s.shift, s.maxSGE = shape.shift, uint32(shape.maxSGE)
	s.ids = make([]uint64, shape.total())
	s.attr = provider.SRQAttr{MaxWR: shape.slots - 1, MaxSGE: shape.maxSGE}
	s.list.init(shape.slots, shape.wait, func(i, next uint16) { store16(s.slot(i), srqLink, next) })
	return nil
}

// free frees the memory of alloc, and the user index.
func (s *SRQ) free() error {
	if s.index != noIndex {
		s.ctx.resources.remove(s.index)
		s.index = noIndex
	}
	if s.cq != nil {
		s.pd.dropCQ(s.cq)
		s.cq = nil
	}
	var errs []error
	if s.bell != nil {
		errs = append(errs, s.ctx.freeDB(s.bell))
		s.bell = nil
	}
	if s.region != nil {
		errs = append(errs, s.region.Free())
		s.region = nil
	}
	return errors.Join(errs...)
}

func (s *SRQ) slot(i uint16) unsafe.Pointer { return unsafe.Add(s.slots, uintptr(i)<<(s.shift&31)) }

// Handle is the kernel's handle of the SRQ.
func (s *SRQ) Handle() uint32 { return s.handle }

// Num is the number by which senders of XRC name the SRQ.
func (s *SRQ) Num() uint32 { return s.num }

// Attr returns how much fits.
func (s *SRQ) Attr() provider.SRQAttr { return s.attr }

// usable returns why the SRQ cannot be used, or nil. The caller holds the lock.
func (s *SRQ) usable() error {
	if s.region == nil || s.ctx.file.Closed() {
		return net.ErrClosed
	}
	return nil
}

// PostRecv posts receives, in order.
func (s *SRQ) PostRecv(wrs []provider.RecvWR) (int, error) {
	s.lock.Lock()
	if err := s.usable(); err != nil {
		s.lock.Unlock()
		return 0, err
	}
	n, first := 0, s.list.head
	var err error
	for n < len(wrs) {
		if err = s.post(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		if s.recorded != nil {
			s.recorded.receives(s, first, n, recordedSRQRecv)
		}
		s.publish(n)
	}
	limit := s.limit
	if limit > s.posted {
		limit = 0
	} else {
		s.limit = 0
	}
	s.lock.Unlock()
	if limit > 0 {
		err = errors.Join(err, s.setLimit(limit))
	}
	return n, err
}

// setLimit runs the command.
func (s *SRQ) setLimit(limit uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	return s.ctx.file.ModifySRQ(&abi.UverbsModifySRQ{SRQHandle: s.handle, AttrMask: uverbs.SRQLimit, SRQLimit: limit}, uverbs.Driver{})
}

// publish announces n more receives to the device. The caller holds the lock.
func (s *SRQ) publish(n int) {
	s.posted += uint32(n)
	mmio.Record(&s.bell.rec[recvRecord], endian.Big32(s.posted&0xffff))
}

// post writes one request into a slot. The caller holds the lock.
func (s *SRQ) post(wr *provider.RecvWR) error {
	sg := wr.SGList
	if uint32(len(sg)) > s.maxSGE {
		return tooManySGE(len(sg), s.maxSGE)
	}
	for k := range sg {
		if sg[k].Length > maxSGELength {
			return tooLong(sg[k].Length)
		}
	}
	i, ok := s.list.take()
	if !ok {
		return provider.ErrFull
	}
	s.ids[i] = wr.ID
	p := unsafe.Add(s.slot(i), srqSegment)
	for k := range sg {
		putData(p, sg[k].Length, sg[k].LKey, sg[k].Addr)
		p = unsafe.Add(p, segment)
	}
	if uint32(len(sg)) < s.maxSGE {
		putData(p, 0, invalidLKey, 0)
	}
	return nil
}

// complete returns the ID of the receive in a slot, which a CQE names, and takes
// the slot back. If the CQE brings the data itself, these are copied first. It
// returns false for a slot that holds none.
func (s *SRQ) complete(i uint16, data []byte) (id uint64, st provider.WCStatus, ok bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.region == nil || !s.list.done(i) {
		return 0, 0, false
	}
	if len(data) > 0 {
		st = s.pd.scatter(unsafe.Add(s.slot(i), srqSegment), int(s.maxSGE), data)
	}
	return s.ids[i], st, true
}

// repost posts the receive of slot i again, which the device returned because of a page fault. It
// returns false for a slot that holds none.
func (s *SRQ) repost(i uint16) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.region == nil {
		return false
	}
	to, ok := s.list.fault(i)
	if !ok {
		return false
	}
	s.ids[to] = s.ids[i]
	n := int(s.maxSGE) * segment
	copy(unsafe.Slice((*byte)(unsafe.Add(s.slot(to), srqSegment)), n), unsafe.Slice((*byte)(unsafe.Add(s.slot(i), srqSegment)), n))
	if s.recorded != nil {
		s.recorded.receives(s, to, 1, recordedRepost)
	}
	s.publish(1)
	return true
}

// drop frees the slot of the receive whose completion e will never be polled, and reports the
// receive.
func (s *SRQ) drop(e unsafe.Pointer) {
	if !isReceive(e) {
		return
	}
	if id, _, ok := s.complete(load16(e, cqeLast), nil); ok {
		s.report(id)
	}
}

// report calls provider.SRQConfig.Dropped.
func (s *SRQ) report(id uint64) {
	if s.dropped != nil {
		s.dropped(id)
	}
}

// isReceive reports whether e is the completion of a receive.
func isReceive(e unsafe.Pointer) bool {
	switch load8(e, cqeOpOwn) >> 4 {
	case cqeRespWrImm, cqeRespSend, cqeRespSendImm, cqeRespSendInv, cqeRespErr:
		return true
	}
	return false
}

// Modify sets the limit. The size cannot be changed, because mlx5_ib does not support it.
func (s *SRQ) Modify(attr *provider.SRQAttr, mask provider.SRQAttrMask) error {
	if mask&provider.SRQAttrMaxWR != 0 {
		return fmt.Errorf("mlx5 does not resize shared receive queues: %w", errors.ErrUnsupported)
	}
	if mask&provider.SRQAttrLimit == 0 {
		return nil
	}
	s.lock.Lock()
	s.limit = 0
	s.lock.Unlock()
	return s.setLimit(uint32(attr.Limit))
}

// Query queries the limit from the kernel. The capacities are Attr's, because the kernel includes
// the wait queue.
func (s *SRQ) Query() (provider.SRQAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return provider.SRQAttr{}, net.ErrClosed
	}
	r, err := s.ctx.file.QuerySRQ(s.handle)
	if err != nil {
		return provider.SRQAttr{}, err
	}
	attr := s.attr
	attr.Limit = int(r.SRQLimit)
	return attr, nil
}

// Close destroys the SRQ. Messages that an XRC SRQ has received and no poll has returned are lost.
func (s *SRQ) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := s.ctx.file.Destroyed(func() error { return s.ctx.file.DestroySRQ(s.handle) }); err != nil {
		return err
	}
	s.closed = true
	s.leak.Done()
	if s.cq != nil {
		// Pollers lock the CQ first, and do not find the SRQ any more.
		s.cq.acquire()
		s.cq.purge(s.index, nil)
		s.cq.release()
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.free()
}
