// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"sync"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// RecordedOperations is the number of operations that a Recorder keeps. An operation is a WQE of a
// send or a receive, or a CQE.
const RecordedOperations = 4096

// recordedArms is the number of requests for events that a Recorder keeps in addition to the operations. They are apart, because a program
// that sleeps for each completion would displace a third of its operations by them.
const recordedArms = 1024

// RecordOptions are options of Context.Record.
type RecordOptions struct {
	// Payload keeps the data of messages that is inside WQEs and CQEs: inline data, headers of
	// packets, and data that the device puts into completions. It may be secret. Without Payload
	// the Recorder keeps zeros in its place.
	Payload bool
}

// Recorder keeps the last RecordedOperations operations of a Context, with the bytes that the
// driver and the device exchange. These are WQEs, doorbell records, stores to registers, and CQEs. It
// also keeps the stores that armed CQs since the oldest of these operations, at most the last 1024. Its
// methods may be called concurrently with each other and with the use of the queues.
//
// A recorded operation takes the lock of the Recorder and copies up to 1008 bytes. It does not
// allocate. Polls of a recorded CQ decode the completions one by one.
type Recorder struct {
	device  string
	payload bool

	mu     sync.Mutex
	ops    []recorded    // a ring
	next   uint64        // counts the operations since the start
	arms   []recordedArm // a ring
	armed  uint64        // counts the requests for events since the start
	queues int           // counts the recorded queues, for their names
}

// recordedArm is a recorded request for an event.
type recordedArm struct {
	at   uint64 // Recorder.next at that time
	cq   *recordedCQ
	num  uint32 // of the CQ
	word uint32 // of the doorbell record
}

// recorded is a recorded operation.
type recorded struct {
	kind        recordedKind
	first, last bool // of a list with one doorbell.
	blocks      uint8
	size        uint16      // of data.
	at          uint32      // the first block, the slot or index of a receive, or the index of the CQE.
	record      uint32      // the doorbell record after the list.
	register    uint32      // offset of the stores in the page of registers.
	n           int         // completions.
	id          uint64      // of the request.
	qp          *recordedQP // nil if the CQE names no recorded QP
	srq         *recordedSRQ
	cq          *recordedCQ
	wc          provider.WC
	data        [maxRecorded]byte
}

// maxRecorded is the number of bytes of the longest WQE, which is longer than any CQE.
const maxRecorded = maxSegments * segment

type recordedKind uint8

const (
	recordedSend recordedKind = iota
	recordedRecv
	recordedCQE
	recordedSRQRecv
	recordedRepost // a receive that the provider has posted to an SRQ again
)

// recordedQP describes a QP whose operations are recorded. It does not change.
type recordedQP struct {
	recorder       *Recorder
	seq            int
	typ            provider.QPType
	num            uint32
	cap            provider.QPCap
	transport      transport
	target         bool    // of DC
	lsoHeader      int     // bytes of the longest header
	half           uintptr // bytes of a half of its register, 0 without BlueFlame
	sendCQ, recvCQ *recordedCQ
	srq            *recordedSRQ
}

// recordedCQ describes a CQ whose completions are recorded. It does not change. A resized CQ gets
// another one.
type recordedCQ struct {
	recorder *Recorder
	seq      int
	entries  int
	size     int // bytes of an entry
}

// Record starts recording, for the QPs, SRQs and CQs that are created later. It ends with the Context.
// Only the first call has an effect, and the others return its Recorder, which has about 5 MB. It
// may be called concurrently.
//
// Without a Recorder, sends cost nothing more. The cost is one branch for each list of receives, for each
// CQ.Arm, and for each completion that the fast path of polls does not take.
func (c *Context) Record(opt RecordOptions) *Recorder {
	if r := c.recorder.Load(); r != nil {
		return r
	}
	r := &Recorder{device: c.file.Info().Name, payload: opt.Payload, ops: make([]recorded, RecordedOperations), arms: make([]recordedArm, recordedArms)}
	if !c.recorder.CompareAndSwap(nil, r) {
		return c.recorder.Load()
	}
	return r
}

// record starts recording of a new QP, or of a DC target with a new number, if the Context has a Recorder.
func (q *QP) record() {
	r := q.ctx.recorder.Load()
	if r == nil {
		return
	}
	d := &recordedQP{recorder: r, seq: r.queue(), typ: q.typ, num: q.num, cap: q.cap, transport: q.sq.transport, target: q.dct, lsoHeader: q.sq.packets.maxHeader}
	if q.sendCQ != nil {
		d.sendCQ = q.sendCQ.recorded
	}
	if q.recvCQ != nil {
		d.recvCQ = q.recvCQ.recorded
	}
	if q.srq != nil {
		d.srq = q.srq.recorded
	}
	q.rq.recorded = d
	q.sq.recorded = d
	if q.sq.reg != nil {
		d.half = q.sq.reg.Size
		q.sq.slow = true
	}
}

// record starts recording of a CQ with a new ring if the Context has a Recorder. If the CQ is in use,
// the caller holds its lock.
func (c *CQ) record() {
	if r := c.ctx.recorder.Load(); r != nil {
		c.recorded = &recordedCQ{recorder: r, seq: r.queue(), entries: c.entries, size: 1 << c.shift}
		c.fast = fastNone
	}
}

// queue returns the number of a new queue.
func (r *Recorder) queue() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues++
	return r.queues
}

// add returns the place of the next operation. The caller holds the lock, and sets the fields of the
// kind.
func (r *Recorder) add(kind recordedKind) *recorded {
	o := &r.ops[r.next%uint64(len(r.ops))]
	r.next++
	o.kind, o.qp, o.srq, o.cq = kind, nil, nil, nil
	return o
}

// arm records a request for an event of a CQ with a number, before its stores.
func (d *recordedCQ) arm(num, word uint32) {
	r := d.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arms[r.armed%recordedArms] = recordedArm{r.next, d, num, word}
	r.armed++
}

// sends records the WQEs from block start up to s.cur, before the doorbell. The register takes the
// given number of blocks, or with 0 blocks 8 bytes. The caller holds the locks of the queue and the
// register.
func (q *recordedQP) sends(s *sendQueue, start uint32, blocks uintptr) {
	r := q.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := start; int32(s.cur-at) > 0; {
		// The size is clamped, because the device can write to the ring.
		ds := min(max(wqeSize(unsafe.Add(s.buf, uintptr(at&s.mask)*wqebb)), 1), maxSegments)
		o := r.add(recordedSend)
		o.qp, o.at, o.id, o.size = q, at, s.entry(at).id, uint16(ds*segment)
		ring := unsafe.Slice((*byte)(s.buf), uintptr(s.mask+1)*wqebb)
		data := o.data[:o.size]
		n := copy(data, ring[uintptr(at&s.mask)*wqebb:])
		copy(data[n:], ring)
		scrub(data, q.transport, r.payload)
		o.first = at == start
		at += (ds + 3) >> 2
		o.last = int32(s.cur-at) <= 0
		o.record, o.blocks = s.cur&0xffff, uint8(blocks)
		o.register = uint32(uintptr(s.reg.Base)%uarSize + s.reg.Offset)
	}
}

// receives records the last n receives, before the doorbell, so that their completions come later. The caller holds the lock of the queue.
func (q *recordedQP) receives(rq *recvQueue, n int) {
	r := q.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range uint32(n) {
		at := rq.head - uint32(n) + i
		slot := rq.slot(uint16(at))
		o := r.add(recordedRecv)
		o.qp, o.at, o.id = q, at, rq.id(at)
		used := uintptr(0)
		for used < min(uintptr(rq.maxSGE), maxSegments) {
			used++
			if load32(slot, (used-1)*segment) == 0 {
				break // the element that ends the list
			}
		}
		o.size = uint16(copy(o.data[:], unsafe.Slice((*byte)(slot), used*segment)))
		o.first, o.last = i == 0, int(i) == n-1
		o.record = rq.head & 0xffff
		if rq.mute {
			o.record = endian.Big32(*rq.bell) & 0xffff
		}
	}
}

// completion records entry e after its decoding, which returned out and w. It disables the fast paths
// of polls, so that CQ.take decodes the next entry. The caller holds the lock of the CQ.
func (d *recordedCQ) completion(c *CQ, e unsafe.Pointer, out outcome, w *provider.WC) {
	c.fast = fastNone
	if out == again {
		return
	}
	r := d.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.add(recordedCQE)
	o.cq, o.at, o.n, o.first, o.last = d, c.ci, 0, true, true
	if out == took {
		o.n, o.wc = 1, *w
	}
	if c.qp != nil {
		o.qp = c.qp.sq.recorded
	} else if c.srq != nil {
		o.srq = c.srq.recorded
	}
	size := d.size
	o.size = uint16(copy(o.data[:], unsafe.Slice((*byte)(unsafe.Add(e, cqeSize-size)), size)))
	if !r.payload {
		clear(o.data[:size-cqeSize])
		if load8(e, cqeOpOwn)>>2&3 != formatPlain {
			clear(o.data[size-cqeSize:][:cqeSize/2])
		}
	}
}
