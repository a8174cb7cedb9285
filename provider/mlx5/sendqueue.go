// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// sendQueue is a ring of WQEs. Its fields are in the order in which a post touches
// them. Indices count up without end and are masked when they are used. The lock
// guards everything but tail.
type sendQueue struct {
	lock      spin.Lock
	ready     atomic.Bool // the QP's state lets requests be posted. See QP.allow
	unlocked  bool        // one goroutine posts, and the lock is not taken.
	slow      bool        // publishSlow rings
	cur       uint32      // the block that the next WQE begins with
	mask      uint32      // blocks - 1
	head      uint32      // counts the posted requests. Pollers also load it
	maxPost   uint32      // requests that fit
	maxSGE    uint32
	maxInline uint32 // bytes
	fence     uint32 // what a UMR demands of the next request's control segment
	num       uint32 // QP number << 8
	buf       unsafe.Pointer
	end       uintptr     // of buf. A pointer would keep the memory behind it alive
	pending   *pendingWR  // the first of mask+1
	ops       *operations // of the transport
	bell      mmio.Bell
	reg       *register
	file      *uverbs.File
	batch     batch
	doorbells uint64 // counts the notifications of the device
	transport transport
	packets   packetLimits
	recorded  *recordedQP // nil if the requests are not recorded
	fast      fastPath
	flags     [8]uint64          // the second 8 bytes of a control segment as the device has them, by provider.SendFlags
	counts    [16]provider.Count // counts the built requests by provider.SendOpcode
	tail      uint32             // counts the completed requests. Guarded by the lock of the CQ, loaded by posters atomically
}

// block is a block of the ring as words.
type block [wqebb / 8]uint64

// fastPath holds the conditions and the data of the short path of a Builder's methods and
// BatchPost.
type fastPath struct {
	sge    uint32                   // bytes of the longest element. 0 disables the short path.
	inline uint32                   // bytes of the most inline data. 0 disables it
	reg    atomic.Pointer[register] // nil disables the short path of BatchPost. See QP.allow
	send   uint64                   // the first 8 bytes of the control segment of a SEND, without index and size
	write  uint64                   // the same of an RDMA WRITE
}

// packetLimits holds the limits of a raw packet QP.
type packetLimits struct {
	minHeader int    // bytes of a packet that must stand in its WQE
	maxHeader int    // bytes of OpLSO's header
	maxLSO    uint32 // bytes of OpLSO's payload
	checksums bool   // the device fills them in
}

// pendingWR holds the data that the completion of the WQE at a block needs.
type pendingWR struct {
	id   uint64
	head uint32 // the request's number. Stored with spin.StoreRelease, because a device may name any block
	umr  uint32 // provider.WCOpcode, of the requests that the device reports as UMR
}

// batch holds the requests that BatchAdd has built, up to block sendQueue.cur. A post or discard
// sets start and head for the next batch. This takes less time than to set them in BatchBegin.
type batch struct {
	start uint32 // sendQueue.cur before the batch.
	head  uint32 // sendQueue.head after the batch.
	fence uint32 // sendQueue.fence before the batch.
	last  uint32 // the block of the ring that the last request begins with
	until uint32 // limit of head without another read of sendQueue.tail
	sg    [1]provider.SGE
}

// entry returns the record of the WQE at a block.
func (s *sendQueue) entry(block uint32) *pendingWR {
	return (*pendingWR)(unsafe.Add(unsafe.Pointer(s.pending), uintptr(block&s.mask)*unsafe.Sizeof(pendingWR{})))
}

// setNum sets the QP number.
func (s *sendQueue) setNum(num uint32) {
	s.num = num << 8
	s.fast.send, s.fast.write = opcodeSend<<32|uint64(s.num), opcodeWrite<<32|uint64(s.num)
}

// setFastPath sets which requests a Builder's methods build.
func (s *sendQueue) setFastPath() {
	k := &s.fast
	k.sge, k.inline = 0, 0
	if s.ready.Load() && s.transport == transportConnected && s.fence == 0 {
		k.inline = s.maxInline
		if s.maxSGE > 0 {
			k.sge = maxSGELength
		}
	}
}

// setFence sets the fence of the next request.
func (s *sendQueue) setFence(fence uint32) {
	s.fence = fence
	s.setFastPath()
}

// forget makes the queue one to which nothing was ever posted. The caller holds the
// locks of the queue and of the CQ.
func (s *sendQueue) forget() {
	spin.StoreRelease(&s.head, 0)
	spin.StoreRelease(&s.tail, 0)
	s.batch.start, s.batch.head, s.batch.until = s.cur, 0, 0
	if s.pending == nil {
		return
	}
	for i := range s.mask + 1 {
		// No request in flight has this number.
		*s.entry(i) = pendingWR{head: ^uint32(0)}
	}
}

// outstanding returns the record of the WQE with this index. It returns nil if no outstanding
// request begins there. Pollers call it, one at a time.
func (s *sendQueue) outstanding(index uint16) *pendingWR {
	head, tail := atomic.LoadUint32(&s.head), s.tail
	if head == tail {
		return nil // also if there is no queue
	}
	e := s.entry(uint32(index))
	if atomic.LoadUint32(&e.head)-tail >= head-tail {
		return nil
	}
	return e
}

// free returns the blocks of all requests up to e, a result of outstanding, to the posters. From
// then on e and the WQE may be overwritten.
func (s *sendQueue) free(e *pendingWR) { spin.StoreRelease(&s.tail, e.head+1) }

// PostSend posts the requests in order and rings once. It does not allocate.
func (q *QP) PostSend(wrs []provider.SendWR) (int, error) {
	s := &q.sq
	if !s.unlocked {
		s.lock.Lock()
	}
	if !s.ready.Load() || s.file.Closed() {
		s.unlock()
		return 0, q.notReady(len(wrs))
	}
	var err error
	s.batch.until = atomic.LoadUint32(&s.tail) + s.maxPost
	if free := s.batch.until - s.head; len(wrs) > int(free) {
		wrs, err = wrs[:free], provider.ErrFull
	}
	cur, last, ds, n := s.cur, uint32(0), uint32(0), uint32(0)
	for i := range wrs {
		wr := &wrs[i]
		var d uint32
		if wr.InlineData == nil {
			d = s.build(wr, cur, n)
		} else {
			d = s.buildInline(wr, cur, n)
		}
		if d == 0 {
			err = s.refusal(&wrs[i])
			break
		}
		last, ds = cur, d
		cur += (d + 3) >> 2
		n++
	}
	if n == 0 {
		s.unlock()
		return 0, err
	}
	s.publish(cur, n, last, ds)
	return int(n), err
}

// unlock releases the lock of a post that does not ring.
func (s *sendQueue) unlock() {
	if !s.unlocked {
		s.lock.Unlock()
	}
}

// publish passes n requests to the device and releases the lock. They end at block cur. The last of
// them begins at block last and has ds segments.
//
// The register takes the first 8 bytes of the last WQE. If there is only one WQE with data after
// its control segment, and it fits, the register takes the WQE itself in whole blocks (BlueFlame).
func (s *sendQueue) publish(cur, n, last, ds uint32) {
	s.cur = cur
	s.batch.head = s.head + n
	spin.StoreRelease(&s.head, s.batch.head)
	add(&s.doorbells, 1)
	if s.slow {
		s.publishSlow(n, last, ds)
		return
	}
	s.batch.start = cur
	r := s.reg
	at := last & s.mask
	if blocks := r.blocks(n, ds); blocks > uintptr(s.mask+1-at) {
		s.ringWrap(&s.bell, at, blocks)
	} else {
		mmio.Ring(&s.bell, endian.Big32(cur&0xffff), unsafe.Add(s.buf, uintptr(at)*wqebb), blocks)
	}
	s.afterRing()
}

// blocks returns how many blocks of the last of n requests, of ds segments, the register takes. 0
// means 8 bytes.
func (r *register) blocks(n, ds uint32) uintptr {
	if n != 1 || ds < 2 || uintptr(ds)*segment > r.Size {
		return 0
	}
	return uintptr(ds+3) >> 2
}

// afterRing releases the lock after its word was released with the ring.
func (s *sendQueue) afterRing() {
	if !s.unlocked {
		s.lock.Released()
	}
}

// publishSlow is publish, after head was stored, for recorded QPs and for a register that other QPs
// also use. It takes the register's lock even for a QP of one goroutine, because the other QPs may
// belong to other goroutines. Such a QP has a shared register only with a kernel before Linux 5.7,
// which assigns registers itself (openLegacy). Even there the first few QPs of a context have their
// own.
//
//go:noinline
func (s *sendQueue) publishSlow(n, last, ds uint32) {
	r := s.reg
	r.lock.Lock()
	bell := s.bell
	bell.Lock = r.lock.Word()
	at, blocks := last&s.mask, r.blocks(n, ds)
	if s.recorded != nil {
		s.recorded.sends(s, s.batch.start, blocks)
	}
	s.batch.start = s.cur
	if blocks > uintptr(s.mask+1-at) {
		s.ringWrap(&bell, at, blocks)
	} else {
		mmio.Ring(&bell, endian.Big32(s.cur&0xffff), unsafe.Add(s.buf, uintptr(at)*wqebb), blocks)
	}
	r.lock.Released()
	s.unlock()
}

// ringWrap rings with a WQE that goes on at the start of the ring.
//
//go:noinline
func (s *sendQueue) ringWrap(bell *mmio.Bell, at uint32, blocks uintptr) {
	first := uintptr(s.mask + 1 - at)
	mmio.RingWrap(bell, endian.Big32(s.cur&0xffff), unsafe.Add(s.buf, uintptr(at)*wqebb), first, s.buf, blocks-first)
}

// notReady returns the reason why the queue takes no requests.
func (q *QP) notReady(n int) error {
	switch {
	case q.closed.Load() || q.file.Closed():
		return net.ErrClosed
	case q.sq.ops == nil:
		return fmt.Errorf("mlx5: send on a QP of type %v without a send queue: %w", q.typ, syscall.EINVAL)
	case n == 0:
		return nil
	}
	return &provider.QPStateError{State: q.State()}
}

// BatchBegin takes the send queue for a batch.
func (q *QP) BatchBegin() { q.sq.begin() }

// begin is BatchBegin. It is inlined.
func (s *sendQueue) begin() {
	if !s.unlocked {
		s.lock.Lock()
	}
	s.batch.fence = s.fence
}

// BatchAdd builds one request. The device does not see it.
func (q *QP) BatchAdd(wr *provider.SendWR) error {
	s := &q.sq
	b := &s.batch
	if s.full() {
		return q.batchFull()
	}
	var d uint32
	if wr.InlineData == nil {
		d = s.build(wr, s.cur, b.head-s.head)
	} else {
		d = s.buildInline(wr, s.cur, b.head-s.head)
	}
	if d == 0 {
		return s.refusal(wr)
	}
	b.last = s.cur & s.mask
	b.head++
	s.cur += (d + 3) >> 2
	return nil
}

// full reports whether the batch has no room for one more request. A queue without memory is never
// full.
func (s *sendQueue) full() bool {
	b := &s.batch
	tail := atomic.LoadUint32(&s.tail)
	b.until = tail + s.maxPost
	return b.head-tail >= s.maxPost
}

// batchFull returns the reason why nothing can be built.
func (q *QP) batchFull() error {
	if q.closed.Load() || q.sq.maxPost == 0 {
		return q.notReady(1)
	}
	return provider.ErrFull
}

// BatchPost passes the built requests to the device, as publish does.
func (q *QP) BatchPost() error {
	s := &q.sq
	b := &s.batch
	r := s.fast.reg.Load()
	n := b.head - s.head
	if n == 0 || r == nil {
		return q.batchPostSlow(n)
	}
	if s.file.Closed() { // by itself: the compiler would make a value of the condition
		return q.batchPostSlow(n)
	}
	spin.StoreRelease(&s.head, b.head)
	b.start = s.cur
	add(&s.doorbells, 1)
	at := b.last
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	if blocks := r.blocks(n, wqeSize(wqe)); blocks > uintptr(s.mask+1-at) {
		s.ringWrap(&s.bell, at, blocks)
	} else {
		mmio.Ring(&s.bell, endian.Big32(s.cur&0xffff), wqe, blocks)
	}
	s.afterRing()
	return nil
}

// wqeSize returns the number of segments in a WQE's control segment.
func wqeSize(wqe unsafe.Pointer) uint32 { return uint32(*(*uint8)(unsafe.Add(wqe, 7))) }

// batchPostSlow is BatchPost in three uncommon cases. The batch is empty, or nothing can be posted any
// more, or other QPs also use the register.
//
//go:noinline
func (q *QP) batchPostSlow(n uint32) error {
	s := &q.sq
	b := &s.batch
	if !s.ready.Load() || s.file.Closed() {
		q.BatchDiscard()
		return q.notReady(int(n))
	}
	if n == 0 {
		s.unlock()
		return nil
	}
	s.publish(s.cur, n, b.last, wqeSize(unsafe.Add(s.buf, uintptr(b.last)*wqebb)))
	return nil
}

// BatchDiscard drops the built requests.
func (q *QP) BatchDiscard() {
	s := &q.sq
	for i := s.batch.start; i != s.cur; i++ {
		// Otherwise the block would name a request that is posted later, with the ID of this one.
		if e := s.entry(i); e.head-s.head < s.batch.head-s.head {
			s.subtract(i)
			spin.StoreRelease(&e.head, s.head+1<<31)
		}
	}
	s.cur, s.batch.head = s.batch.start, s.head
	s.setFence(s.batch.fence)
	s.unlock()
}
