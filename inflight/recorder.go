// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"purerdma/internal/clock"
	"purerdma/verbs"
)

// queueRecords and messageRecords are the numbers of records of a Queue and of a Receiver. They are
// powers of 2.
const (
	queueRecords   = 32
	messageRecords = 8
)

// recorder keeps the last records of a Queue or of a Receiver, whose lock guards it.
type recorder struct {
	// ring grows from firstRecords to a fixed length, because an idle connection has few records. The
	// time of an unused record is 0.
	ring []record
	now  int64  // the last reading of the clock
	next uint32 // number of the next record
	// pause is the value of hub.pause at that reading.
	pause uint32
}

const (
	firstRecords  = 2
	clockInterval = 16 // at least one record in so many has its own reading of the clock
)

// record is one entry of a recorder. It has 16 bytes.
type record struct {
	at     int64  // clock.Now
	number uint16 // of the first request or message
	kind   recordKind
	code   uint8 // verbs.SendOpcode of a post, verbs.WCStatus of a completion or receive
	// value is the number of bytes of a post or message. For a success or flush it is the number of
	// requests, for another failure the vendor syndrome, and for a failed post the errno.
	value uint32
}

// recordKind is the kind of a record.
type recordKind uint8

const (
	recPost recordKind = iota
	recComplete
	recRefused  // PostSend did not post the request and the requests after it
	recFull     // as recRefused, because the send queue was full
	recDoorbell // the request is queued, but the device was not notified
	recReset
	recClose
	recMessage
	recReceiveFailed
	recImmediate            // a message with immediate data, or a WRITE with it
	recLate      = 1 << 7   // flag of records for which the clock was not read
	recKinds     = 1<<7 - 1 // mask of the kind
)

// add adds a record to a ring of most records. With read, or if the CQ has been empty since the last
// reading, it reads the clock.
func (r *recorder) add(e record, most int, pause uint32, read bool) {
	if read || r.next%clockInterval == 0 || pause != r.pause {
		r.now, r.pause = clock.Now(), pause
	} else {
		e.kind |= recLate
	}
	e.at = r.now
	if int(r.next) == len(r.ring) && len(r.ring) < most {
		r.grow()
	}
	*r.slot(r.next) = e
	r.next++
}

// slot returns the place of a record by its number.
func (r *recorder) slot(number uint32) *record { return &r.ring[number&uint32(len(r.ring)-1)] }

// grow doubles the ring before its first wrap-around.
func (r *recorder) grow() {
	ring := make([]record, max(firstRecords, 2*len(r.ring)))
	copy(ring, r.ring)
	r.ring = ring
}

// addFlush adds the flush of requests to the last record if that is also a flush. Otherwise the flushes
// would push out the failure before them.
func (r *recorder) addFlush(e record, most int, pause uint32) {
	if len(r.ring) > 0 {
		last := r.slot(r.next - 1)
		if last.kind&recKinds == recComplete && last.code == uint8(verbs.WCWRFlushErr) {
			last.value += e.value
			return
		}
	}
	r.add(e, most, pause, true)
}

// records returns a copy of the records, the oldest first.
func (r *recorder) records() []record {
	var all []record
	for i := range r.ring {
		if e := r.slot(r.next + uint32(i)); e.at != 0 {
			all = append(all, *e)
		}
	}
	return all
}

// newHistory returns a History of records that were copied now.
func newHistory(records []record) History {
	h := History{Time: time.Now(), Entries: make([]HistoryEntry, len(records))}
	for i := range records {
		h.Entries[i] = records[i].entry()
	}
	return h
}

// entry returns the record as text.
func (r *record) entry() HistoryEntry {
	e := HistoryEntry{Time: clock.Time(r.at), Exact: r.kind&recLate == 0}
	e.Object = fmt.Sprintf("request %d", r.number)
	switch r.kind & recKinds {
	case recPost:
		e.Event, e.Status = "post", fmt.Sprintf("%v, %d bytes", verbs.SendOpcode(r.code), r.value)
	case recComplete:
		status, vendor := verbs.WCStatus(r.code), r.value
		if status == verbs.WCSuccess || status == verbs.WCWRFlushErr {
			if vendor = 0; r.value > 1 {
				e.Object = fmt.Sprintf("requests %d to %d", r.number, r.number+uint16(r.value-1))
			}
		}
		e.Event, e.Status = "complete", failureText(status, vendor)
	case recReceiveFailed:
		e.Event, e.Object, e.Status = "receive", "message", failureText(verbs.WCStatus(r.code), r.value)
	case recRefused:
		e.Event, e.Status = "post", "not posted"+errnoText(r.value)
	case recFull:
		e.Event, e.Status = "post", "not posted: the send queue is full"
	case recDoorbell:
		e.Event, e.Status = "post", "the device was not notified"+errnoText(r.value)
	case recReset:
		e.Event, e.Object = "reset", "QP"
	case recClose:
		e.Event, e.Object = "close", "QP"
	case recMessage, recImmediate:
		e.Event, e.Object, e.Status = "receive", fmt.Sprintf("message %d", r.number), fmt.Sprintf("%d bytes", r.value)
		if r.kind&recKinds == recImmediate {
			e.Status += ", immediate data"
		}
	}
	return e
}

// failureText describes the status of a completion.
func failureText(status verbs.WCStatus, vendor uint32) string {
	if vendor == 0 {
		return status.String()
	}
	return fmt.Sprintf("%v (vendor syndrome %#x)", status, vendor)
}

// errnoOf returns the number of the system's error in err, 0 if there is none.
func errnoOf(err error) uint32 {
	errno, _ := errors.AsType[syscall.Errno](err)
	return uint32(errno)
}

// errnoText returns the end of a text for a result of errnoOf.
func errnoText(n uint32) string {
	if n == 0 {
		return ""
	}
	return ": " + syscall.Errno(n).Error()
}

// History returns the last 32 records of the Queue. Each post of a request is one, each completion, the
// requests that were flushed together, and each reset and the Close of the QP. It has no requests that
// the program posts to the QP itself. History remains available after the Close.
func (q *Queue) History() History {
	q.mu.Lock()
	records := q.recorder.records()
	q.mu.Unlock()
	return newHistory(records)
}

// record adds a record. The caller holds the lock.
func (q *Queue) record(kind recordKind, code uint8, seq, value uint32, read bool) {
	q.recorder.add(record{number: uint16(seq), kind: kind, code: code, value: value}, queueRecords, q.hub.currentPause(), read)
}

// recordCompletion records a completion and the requests before it that it completes. The caller holds the
// lock.
func (q *Queue) recordCompletion(seq uint32, wc *verbs.WC) {
	from, status := q.head, wc.Status
	if q.lateReads {
		from = seq
	}
	switch {
	case status == verbs.WCSuccess:
		q.record(recComplete, uint8(status), from, seq-from+1, false)
	case status == verbs.WCWRFlushErr:
		q.recordFlush(from, seq-from+1)
	default:
		if from != seq {
			q.record(recComplete, uint8(verbs.WCSuccess), from, seq-from, true)
		}
		q.record(recComplete, uint8(status), seq, wc.VendorErr, true)
	}
}

// recordFlush records that n requests were flushed. The caller holds the lock.
func (q *Queue) recordFlush(seq, n uint32) {
	e := record{number: uint16(seq), kind: recComplete, code: uint8(verbs.WCWRFlushErr), value: n}
	q.recorder.addFlush(e, queueRecords, q.hub.currentPause())
}

// requestLen returns the number of bytes of a request.
func requestLen(wr *verbs.SendWR) uint32 {
	n := uint32(len(wr.InlineData))
	for i := range wr.SGList {
		n += wr.SGList[i].Length
	}
	return n
}

// History returns the last 8 records of the Receiver. Each message is one, and the first failure of a
// receive. History remains available after the Close of the QP.
func (r *Receiver) History() History {
	r.mu.Lock()
	records := r.recorder.records()
	r.mu.Unlock()
	return newHistory(records)
}

// record records a message. The caller holds the lock.
func (r *Receiver) record(m *Message) {
	r.recorder.addMessage(&m.wc, r.hub.currentPause())
}

// addMessage adds a message.
func (r *recorder) addMessage(wc *verbs.WC, pause uint32) {
	e := record{kind: recMessage, number: uint16(r.next), value: wc.ByteLen}
	if wc.Flags&verbs.WCWithImm != 0 {
		e.kind = recImmediate
	}
	r.add(e, messageRecords, pause, false)
}

// addReceiveFailure adds the failure of a receive.
func (r *recorder) addReceiveFailure(wc *verbs.WC, pause uint32) {
	r.add(record{kind: recReceiveFailed, code: uint8(wc.Status), value: wc.VendorErr}, messageRecords, pause, true)
}

// recordFailure records the first failure of a receive. The caller holds the lock.
func (r *Receiver) recordFailure(wc *verbs.WC) {
	if r.err == nil {
		r.recorder.addReceiveFailure(wc, r.hub.currentPause())
	}
}
