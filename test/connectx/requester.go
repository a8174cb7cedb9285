// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// requester is how far a QP is with its send queue.
type requester struct {
	next                 uint16        // WQEBB of the request to be taken next
	rung                 rung          // what the driver has told of
	ahead                int           // WQEBBs behind next that doorbells have told of, with ExactDoorbells
	flights              []flight      // requests that were taken and are not completed, oldest first
	spare                []flight      // the beginning of the memory of flights
	sendPSN              uint32        // of the next request
	running              bool          // run is at it
	blocked              bool          // nothing is sent before the timer has run out
	timer                timer         // of retries, and of flushing
	flushed              time.Duration // how long it was between the last looks for what is to be flushed
	later                timer         // of what is posted, if it is too much for one go
	rnrLeft, retriesLeft uint64
	// copied is the request at copiedIndex as it was written to a register, if
	// that is what counts.
	copied      []byte
	copiedIndex uint16
}

// flight is a request on its way.
type flight struct {
	index     uint16 // of its first WQEBB
	bbs       uint16
	opcode    uint8
	signaled  bool
	response  bool // it brings something back
	psn       uint32
	psns      uint32 // how many it takes
	numbered  bool   // psn is there
	sent      bool   // the peer has seen it, but its answer did not come
	done      bool
	syndrome  prm.Syndrome
	bytes     uint32 // of its completion
	solicited bool
	// What was brought back, if it goes to the completion.
	scattered [64]byte
	short     int
}

// Times of transports.
const (
	flushInterval = 2 * time.Millisecond   // between two looks at a queue in error, and twice as long each time
	flushLongest  = 256 * time.Millisecond // but not longer: who posts late waits
	rnrForever    = 7
)

func (r *requester) reset() {
	r.next, r.rung, r.ahead, r.sendPSN, r.running, r.blocked = 0, rung{}, 0, 0, false, false
	r.flights = r.spare[:0]
	r.timer.stop()
	r.later.stop()
}

// advance goes past a request.
func (r *requester) advance(bbs uint16) {
	r.next += bbs
	r.rung.behind += int(bbs)
	r.ahead -= int(bbs)
}

// stop ends what would go on by itself.
func (q *qp) stop() {
	q.unblock()
	q.later.stop()
}

func (q *qp) unblock() {
	q.blocked = false
	q.timer.stop()
}

// wait runs something later.
func (q *qp) wait(long time.Duration, run func()) { q.timer.start(q.d.fabric, long, run) }

// done returns up to which WQEBB requests have been completed.
func (q *qp) done() uint16 {
	if len(q.flights) > 0 {
		return q.flights[0].index
	}
	return q.next
}

func (q *qp) retryCount() uint64 { return prm.QPC.RetryCount.Get(q.context[:]) }
func (q *qp) rnrRetry() uint64   { return prm.QPC.RNRRetry.Get(q.context[:]) }

// ackTimeout is how long an answer may take, 0 for ever.
func (q *qp) ackTimeout() time.Duration {
	t := prm.ADS.AckTimeout.Get(prm.QPC.Primary.Of(q.context[:]))
	if t == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << t
}

// maxResponses is how many requests that bring something back may be on their way.
func (q *qp) maxResponses() int { return 1 << prm.QPC.LogSRAMax.Get(q.context[:]) }

// run takes requests from the queue and carries them out, until there are none or
// one has to wait.
func (q *qp) run() {
	if q.state == prm.QPErr {
		q.flushSends()
		return
	}
	if q.running || q.sendCQ == nil {
		return
	}
	q.running = true
	defer func() { q.running = false }()
	posted := q.posted()
	if n := posted - q.done(); int(n) > 1<<q.logSQ {
		q.d.violation(q.name(), "%d WQEBBs are posted, but it has %d", n, 1<<q.logSQ)
		q.fatal(prm.EventWQCatas)
		return
	}
	posted = q.available()
	began := q.d.fabric.work
	for q.state == prm.QPRTS && !q.blocked && q.next != posted {
		if q.d.fabric.work-began > maxAtOnce {
			q.later.start(q.d.fabric, 0, q.run)
			return
		}
		if !q.take(posted - q.next) {
			return
		}
		q.transmit(len(q.flights) - 1)
		q.retire()
	}
}

// take begins with the request at next, of which at most bbs WQEBBs are there. It
// returns false if it cannot be begun now.
func (q *qp) take(bbs uint16) bool {
	w := q.fetch(q.next)
	if w == nil {
		q.fatal(prm.EventWQCatas)
		return false
	}
	f := flight{
		index: q.next, bbs: uint16(max(1, (len(w)+prm.WQEBB-1)/prm.WQEBB)),
		opcode:   uint8(prm.Ctrl.Opcode.Get(w)),
		signaled: prm.Ctrl.Completion.Get(w) >= prm.CompletionAlways,
	}
	f.solicited = prm.Ctrl.Completion.Get(w) == prm.CompletionEvent
	f.response = operations[f.opcode].response
	waiting := 0
	for i := range q.flights {
		if q.flights[i].response && !q.flights[i].done {
			waiting++
		}
	}
	fence := prm.Ctrl.Fence.Get(w)
	if waiting > 0 && fence >= prm.FenceRead || f.response && waiting >= q.maxResponses() {
		return false // until an answer comes
	}
	if f.bbs > bbs {
		q.d.violation(q.name(), "WQE %#x has %d WQEBBs, but %d are posted", q.next, f.bbs, bbs)
		f.done, f.syndrome, f.bbs = true, prm.SyndromeLocalQPOp, bbs
	}
	if len(q.flights) == 0 {
		q.flights = q.spare[:0]
	}
	q.flights = append(q.flights, f)
	if len(q.flights) == 1 {
		q.spare = q.flights
	}
	q.advance(f.bbs)
	return true
}

// fetch copies the request at a WQEBB out of the ring, nil if that is not mapped. A
// request that does not say how long it is has the control segment only.
func (q *qp) fetch(index uint16) []byte {
	b := q.d.wqe[:]
	if q.copied != nil && index == q.copiedIndex {
		copy(b, q.copied)
		return b[:min(len(q.copied), max(prm.Octoword, int(prm.Ctrl.DS.Get(b))*prm.Octoword))]
	}
	size := prm.WQEBB
	for off := 0; off < size; off += prm.WQEBB {
		p := q.bb(index + uint16(off/prm.WQEBB))
		if p == nil {
			return nil
		}
		copy(b[off:], p)
		if off == 0 {
			size = max(prm.Octoword, int(prm.Ctrl.DS.Get(b))*prm.Octoword)
		}
	}
	return b[:size]
}

// bb returns a WQEBB of the ring, where it lies, nil if that is not mapped.
func (q *qp) bb(index uint16) []byte {
	at := uint64(index) * prm.WQEBB & (prm.WQEBB<<q.logSQ - 1)
	return q.buffer.at(q.d.mem, q.sqOff+at, prm.WQEBB)
}

// transmit carries out a request on its way, for the first time or again.
func (q *qp) transmit(i int) {
	f := &q.flights[i]
	if f.done {
		return
	}
	w := q.fetch(f.index)
	if w == nil {
		q.fatal(prm.EventWQCatas)
		return
	}
	q.d.steps = 0
	r := &q.d.request
	q.trace(f, w)
	if text := q.check(f, w); text != "" {
		q.d.violation(q.name(), "WQE %#x: %s", f.index, text)
		f.fail(prm.SyndromeLocalQPOp)
		return
	}
	if text := r.parse(q.service, w); text != "" {
		q.d.violation(q.name(), "WQE %#x: %s", f.index, text)
		f.fail(prm.SyndromeLocalQPOp)
		return
	}
	if s := q.d.fabric.forced(q); s != prm.SyndromeNone {
		f.fail(s)
		return
	}
	switch r.opcode {
	case prm.WQENop:
		f.done = true
		return
	case prm.WQEUMR:
		f.fail(q.d.umr(q, r))
		return
	}
	a := access{q.pd.n, q.n, localRead}
	if f.response {
		a.right = localWrite
	}
	if s, err := q.d.gather(r, a); s != prm.SyndromeNone {
		q.d.note(q, "WQE %#x: %v", f.index, err)
		f.fail(s)
		return
	}
	if operations[r.opcode].atomic && r.length != 8 {
		f.fail(prm.SyndromeLocalLength)
		return
	}
	f.bytes = uint32(r.length)
	q.d.fabric.work += r.length
	if q.datagrams() {
		f.fail(q.datagram(r))
		return
	}
	q.exchange(f, r)
}

// fail ends a request, with SyndromeNone well.
func (f *flight) fail(s prm.Syndrome) { f.done, f.syndrome = true, s }
