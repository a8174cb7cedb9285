// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/clock"
)

// idRecords is the number of calls and events that an ID keeps. It is a power of 2. Dialing takes 7.
const idRecords = 8

// record is one entry of the history of an ID. It has 16 bytes.
type record struct {
	at int64 // clock.Now, 0 if the record is unused
	// status is the status of an event, or the errno of a call, which is errnoUnknown for another error.
	status int32
	kind   recordKind
	code   uint8 // EventType, or index in recordedOps
	state  State // of the ID afterwards
}

// errnoUnknown is the status of a call that has failed without an errno.
const errnoUnknown = -1

// recordKind is the kind of a record.
type recordKind uint8

const (
	recEvent   recordKind = iota
	recCall               // a call has returned
	recBroken             // an operation has failed
	recGivenUp            // an operation was cancelled
)

// recordedOps lists the calls and operations that are recorded. Queries and settings are not.
var recordedOps = []string{
	opBind, opResolve, opResolveRoute, opSetPath, opService, opListen, opConnect, opAccept, opReject, opEstablish,
	opNotify, opNotifyMig, opDisconnect, opMigrate, opJoin, opLeave, opDestroy,
	opSend, opRecv, opRead, opWrite, opAtomic, opProbe, opKeepAlive, opWork, opCompletion, "",
}

// record adds a record of a call or operation. The caller holds id.mu.
func (id *ID) recordOp(kind recordKind, op string, err error) {
	code := slices.Index(recordedOps, op)
	if code < 0 {
		return
	}
	var status int32
	if err != nil {
		status = errnoUnknown
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			status = int32(errno)
		}
	}
	id.record(record{kind: kind, code: uint8(code), status: status})
}

// recordEvent adds a record of an event. The caller holds id.mu.
func (id *ID) recordEvent(ev *Event) {
	id.record(record{kind: recEvent, code: uint8(ev.Type), status: int32(ev.Status)})
}

// record adds a record. The caller holds id.mu.
func (id *ID) record(e record) {
	if id.records == nil {
		id.records = new([idRecords]record)
	}
	e.at, e.state = clock.Now(), id.current()
	id.records[id.nextRecord%idRecords] = e
	id.nextRecord++
}

// entry returns the record as text.
func (e *record) entry() inflight.HistoryEntry {
	h := inflight.HistoryEntry{Time: clock.Time(e.at), Exact: true, Status: "state " + e.state.String()}
	if e.kind != recEvent {
		h.Object = recordedOps[e.code]
	}
	switch e.kind {
	case recEvent:
		h.Event, h.Object = "event", EventType(e.code).String()
		switch err := errno(int(e.status)); {
		case e.status == -1: // the library made the event
			h.Status += ", failed"
		case err != nil:
			h.Status += ", failed: " + err.Error()
		case e.status != 0:
			h.Status += fmt.Sprintf(", status %d", e.status)
		}
	case recCall:
		h.Event = "call"
		switch {
		case e.status > 0:
			h.Status += ", failed: " + syscall.Errno(e.status).Error()
		case e.status < 0:
			h.Status += ", failed"
		}
	case recBroken:
		h.Event = "break"
		if h.Object == "" {
			h.Object = "flush"
		}
	case recGivenUp:
		h.Event = "give up"
	}
	return h
}

// History returns the last 8 events of the ID and calls on it, with the state of the ID after each. Events
// count when they are fetched, and calls when they have returned. Queries and options are not recorded.
// History remains available after Close.
func (id *ID) History() inflight.History {
	var records []record
	id.mu.Lock()
	if id.records != nil {
		for i := range idRecords {
			if e := id.records[(int(id.nextRecord)+i)%idRecords]; e.at != 0 {
				records = append(records, e)
			}
		}
	}
	id.mu.Unlock()
	h := inflight.History{Time: time.Now(), Entries: make([]inflight.HistoryEntry, len(records))}
	for i := range records {
		h.Entries[i] = records[i].entry()
	}
	return h
}

// History returns the last events of the connection in the order of their times. It has the history of
// the ID, of the queue that Operations returns, and of the receiver of the options Receive and Shared. Requests
// and receives that the program posts to the QP itself are only in it after SetLog. BrokenError.History is the History
// at the time of a failure. History remains available after Close.
func (c *Conn) History() inflight.History { return c.ep.history() }

// SetLog makes the History of the connection include the records of a Log, which the program fills. It replaces the Log of an
// earlier call. It may be called concurrently with other methods.
func (c *Conn) SetLog(log *inflight.Log) { c.ep.log.Store(log) }

func (ep *endpoint) history() inflight.History {
	h := ep.id.History()
	if q := ep.ops.Load(); q != nil {
		h.Entries = append(h.Entries, q.History().Entries...)
	}
	if r := ep.receiving.receiver; r != nil {
		h.Entries = append(h.Entries, r.History().Entries...)
	}
	if log := ep.log.Load(); log != nil {
		h.Entries = append(h.Entries, log.History().Entries...)
	}
	slices.SortStableFunc(h.Entries, func(a, b inflight.HistoryEntry) int { return a.Time.Compare(b.Time) })
	h.Time = time.Now()
	return h
}

// recordBroken records the first failure of the connection.
func (ep *endpoint) recordBroken(err *BrokenError) {
	kind, op := recBroken, err.Op
	switch {
	case err.Cancelled:
		kind = recGivenUp
	case op == "" && !isFlush(err.Err):
		op = opCompletion
	}
	ep.id.mu.Lock()
	defer ep.id.mu.Unlock()
	ep.id.recordOp(kind, op, nil)
}
