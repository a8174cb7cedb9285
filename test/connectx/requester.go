// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// requester is the state of a QP's send queue.
type requester struct {
	next                 uint16        // WQEBB of the next request.
	rung                 rung          // last doorbell.
	ahead                int           // WQEBBs after next that doorbells have announced, with ExactDoorbells.
	flights              []flight      // started requests that have not completed, oldest first.
	spare                []flight      // start of the memory of flights.
	sendPSN              uint32        // PSN of the next request.
	running              bool          // whether run is active.
	blocked              bool          // whether sends wait for the timer.
	timer                timer         // timer of retries and flushes.
	flushed              time.Duration // current interval of the polls for requests to flush.
	failed               failedStreams // of a DCI
	later                timer         // continues with requests in excess of maxAtOnce.
	rnrLeft, retriesLeft uint64
	// copied is the register's copy of the request at copiedIndex, if that copy is used.
	copied      []byte
	copiedIndex uint16
}

// flight is a request in flight.
type flight struct {
	index     uint16 // index of its first WQEBB.
	wqebbs    uint16
	opcode    uint8
	stream    uint16 // of a DCI
	signaled  bool
	response  bool // whether it has response data.
	psn       uint32
	psns      uint32 // number of its PSNs.
	numbered  bool   // whether psn is set.
	sent      bool   // whether the peer received it, but its answer was lost.
	done      bool
	syndrome  prm.Syndrome
	bytes     uint32 // byte count of its completion
	solicited bool
	// Response data in the completion.
	scattered [64]byte
	short     int
}

// Times of transports.
const (
	flushInterval = 2 * time.Millisecond   // first interval between polls of a queue in error, doubled each time.
	flushLongest  = 256 * time.Millisecond // maximum interval
	rnrForever    = 7
)

func (r *requester) reset() {
	r.next, r.rung, r.ahead, r.sendPSN, r.running, r.blocked = 0, rung{}, 0, 0, false, false
	r.flights = r.spare[:0]
	r.failed = nil
	r.timer.Stop()
	r.later.Stop()
}

// advance moves past a request.
func (r *requester) advance(wqebbs uint16) {
	r.next += wqebbs
	r.rung.behind += int(wqebbs)
	r.ahead -= int(wqebbs)
}

// stop stops the timers.
func (q *qp) stop() {
	q.unblock()
	q.later.Stop()
}

func (q *qp) unblock() {
	q.blocked = false
	q.timer.Stop()
}

// wait runs a function later.
func (q *qp) wait(long time.Duration, run func()) { q.timer.start(q.d.fabric, long, run) }

// done returns the WQEBB up to which requests have completed.
func (q *qp) done() uint16 {
	if len(q.flights) > 0 {
		return q.flights[0].index
	}
	return q.next
}

func (q *qp) retryCount() uint64 { return prm.QPC.RetryCount.Get(q.context[:]) }
func (q *qp) rnrRetry() uint64   { return prm.QPC.RNRRetry.Get(q.context[:]) }

// ackTimeout returns the timeout of an answer, 0 for no timeout.
func (q *qp) ackTimeout() time.Duration {
	t := prm.ADS.AckTimeout.Get(prm.QPC.Primary.Of(q.context[:]))
	if t == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << t
}

// maxResponses returns the maximum number of requests in flight with response data.
func (q *qp) maxResponses() int { return 1 << prm.QPC.LogSRAMax.Get(q.context[:]) }

// run executes requests from the queue until it is empty or a request has to wait.
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
		last := len(q.flights) - 1
		if q.overtaken(posted) {
			q.transmit(last + 1)
		}
		q.transmit(last)
		q.retire()
	}
}

// take starts the request at next. wqebbs is the number of its available WQEBBs. It returns false
// if the request cannot start now.
func (q *qp) take(wqebbs uint16) bool {
	w := q.fetch(q.next)
	if w == nil {
		q.fatal(prm.EventWQCatas)
		return false
	}
	f := flight{
		index: q.next, wqebbs: uint16(max(1, (len(w)+prm.WQEBB-1)/prm.WQEBB)),
		opcode:   uint8(prm.Ctrl.Opcode.Get(w)),
		stream:   uint16(prm.Ctrl.Stream.Get(w)),
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
	if waiting > 0 && fence >= prm.FenceRead && !q.d.defects.IgnoredFence || f.response && waiting >= q.maxResponses() {
		return false // until an answer arrives
	}
	if f.wqebbs > wqebbs {
		q.d.violation(q.name(), "WQE %#x has %d WQEBBs, but %d are posted", q.next, f.wqebbs, wqebbs)
		f.done, f.syndrome, f.wqebbs = true, prm.SyndromeLocalQPOp, wqebbs
	}
	if len(q.flights) == 0 {
		q.flights = q.spare[:0]
	}
	q.flights = append(q.flights, f)
	if len(q.flights) == 1 {
		q.spare = q.flights
	}
	q.advance(f.wqebbs)
	return true
}

// fetch copies the request at a WQEBB from the ring, and returns nil if it is not mapped. A
// request without a valid length only has the control segment.
func (q *qp) fetch(index uint16) []byte {
	b := q.d.wqe[:]
	if q.copied != nil && index == q.copiedIndex {
		copy(b, q.copied)
		return b[:min(len(q.copied), max(prm.Octoword, int(prm.Ctrl.DS.Get(b))*prm.Octoword))]
	}
	size := prm.WQEBB
	for off := 0; off < size; off += prm.WQEBB {
		p := q.wqebb(index + uint16(off/prm.WQEBB))
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

// wqebb returns a WQEBB of the ring without copying, or nil if it is not mapped.
func (q *qp) wqebb(index uint16) []byte {
	at := uint64(index) * prm.WQEBB & (prm.WQEBB<<q.logSQ - 1)
	return q.buffer.at(q.d.mem, q.sqOff+at, prm.WQEBB)
}

// transmit executes a request in flight, for the first time or again.
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
	if q.failed[f.stream] {
		f.fail(prm.SyndromeFlush)
		return
	}
	if text := q.check(f, w); text != "" {
		q.d.violation(q.name(), "WQE %#x: %s", f.index, text)
		f.fail(prm.SyndromeLocalQPOp)
		return
	}
	if text := r.parse(q.service, w); text != "" {
		if _, known := operations[r.opcode]; !known && q.d.defects.UnknownOpcodes {
			f.done = true
			return
		}
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

// fail ends a request with a syndrome. SyndromeNone means success.
func (f *flight) fail(s prm.Syndrome) { f.done, f.syndrome = true, s }
