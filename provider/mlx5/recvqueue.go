// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"sync/atomic"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// recvQueue is the receive queue of a QP. It is a ring of slots that the device empties in order.
// Each slot has the scatter elements of one receive. There is no register to ring, because the
// device also reads the fill level from the doorbell record.
type recvQueue struct {
	lock     spin.Lock // of posters, unless unlocked: everything down to mute
	unlocked bool

	slots  unsafe.Pointer
	ids    unsafe.Pointer // the ID of each slot's request, 64 bits.
	mask   uint32         // number of slots - 1
	shift  uint8          // a slot has 1<<shift bytes
	maxSGE uint32         // elements of a slot
	max    uint32         // receives that fit
	head   uint32         // receives ever posted. Pollers also load it
	seen   uint32         // tail when it was last read
	posted uint64         // counts the receives since the queue was made
	bell   *uint32        // doorbell record
	// mute keeps the record as it is: a raw packet QP before RTR would take
	// packets.
	mute      bool
	checksums bool        // the device reports correct checksums of packets
	recorded  *recordedQP // nil if the receives are not recorded

	_    [64]byte // pollers write below
	tail uint32   // receives that have completed, guarded by the lock of the CQ
}

// open makes the queue in buf, which is zeros. It has count slots, a power of two, of 1<<shift
// bytes. unlocked promises that only one goroutine posts.
func (q *recvQueue) open(buf unsafe.Pointer, count, shift uint32, record *uint32, unlocked bool) {
	q.unlocked = unlocked
	q.slots = buf
	q.ids = unsafe.Pointer(unsafe.SliceData(make([]uint64, count)))
	q.mask, q.max = count-1, count
	q.shift = uint8(shift)
	q.maxSGE = 1 << shift / segment
	q.bell = record
}

// reset makes the queue as it was made. The device does not look at it, and the
// caller holds the locks of the queue and of the CQ.
func (q *recvQueue) reset() {
	spin.StoreRelease(&q.head, 0)
	spin.StoreRelease(&q.tail, 0)
	q.seen = 0
	if q.bell != nil {
		mmio.Record(q.bell, 0)
	}
}

// post builds the requests in order and announces the built ones to the device. It returns their
// number, and the error of the next one. The caller holds the lock.
func (q *recvQueue) post(wrs []provider.RecvWR) (int, error) {
	n, head := 0, q.head
	var err error
	for n < len(wrs) {
		if head-q.seen >= q.max {
			if q.seen = atomic.LoadUint32(&q.tail); head-q.seen >= q.max {
				err = provider.ErrFull
				break
			}
		}
		if err = q.build(head&q.mask, &wrs[n]); err != nil {
			break
		}
		head++
		n++
	}
	if n > 0 {
		spin.StoreRelease(&q.head, head)
		add(&q.posted, uint64(n))
		if q.recorded != nil {
			q.recorded.receives(q, n)
		}
		if !q.mute {
			q.publish()
		}
	}
	return n, err
}

// publish announces the fill level of the queue to the device. The caller holds the lock.
func (q *recvQueue) publish() { mmio.Record(q.bell, endian.Big32(q.head&0xffff)) }

// build writes one request into slot i.
func (q *recvQueue) build(i uint32, wr *provider.RecvWR) error {
	sg := wr.SGList
	if uint32(len(sg)) > q.maxSGE {
		return tooManySGE(len(sg), q.maxSGE)
	}
	p := unsafe.Add(q.slots, uintptr(i)<<(q.shift&31))
	used := uint32(0)
	for k := range sg {
		length := sg[k].Length
		if length == 0 {
			continue
		}
		if length > maxSGELength {
			return tooLong(length)
		}
		putData(p, length, sg[k].LKey, sg[k].Addr)
		p = unsafe.Add(p, segment)
		used++
	}
	if used < q.maxSGE {
		putData(p, 0, invalidLKey, 0)
	}
	*(*uint64)(unsafe.Add(q.ids, uintptr(i)*8)) = wr.ID
	return nil
}

// outstanding reports whether a CQE names the oldest receive that has not completed. A
// device completes the receives of a QP in order: no QP gets MLX5_IB_MODIFY_QP_OOO_DP. The
// bits of the counter beyond the size of the queue do not count, as in libmlx5. The caller
// holds the lock of the CQ.
func (q *recvQueue) outstanding(counter uint16) bool {
	head, tail := atomic.LoadUint32(&q.head), q.tail
	return (uint32(counter)-tail)&q.mask == 0 && head != tail
}

// free returns the slot of the oldest receive to the posters. From then on it may be overwritten.
// The caller holds the lock of the CQ.
func (q *recvQueue) free() { spin.StoreRelease(&q.tail, q.tail+1) }

// complete returns the ID of an outstanding receive and frees its slot, which the device has not
// written to.
func (q *recvQueue) complete(counter uint16) (id uint64, ok bool) {
	if !q.outstanding(counter) {
		return 0, false
	}
	id = q.id(uint32(counter))
	q.free()
	return id, true
}

// slot returns where the elements of the receive are that a CQE names.
func (q *recvQueue) slot(counter uint16) unsafe.Pointer {
	return unsafe.Add(q.slots, uintptr(uint32(counter)&q.mask)<<(q.shift&31))
}

// id returns the ID of the request in a slot.
func (q *recvQueue) id(i uint32) uint64 { return *(*uint64)(unsafe.Add(q.ids, uintptr(i&q.mask)*8)) }
