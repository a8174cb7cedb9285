// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"slices"
	"sync"

	"purerdma/verbs"
)

// Log records the requests, completions and messages of a protocol that posts requests of its own, for a History. Such a protocol
// uses [HandleCompletions] instead of a Queue and a Receiver. All requests must complete, in their order. cm.Conn.SetLog adds
// the records to the History of a connection. The methods of a Log may be called concurrently, and do not block. A call takes
// some nanoseconds.
type Log struct {
	hub *hub

	mu           sync.Mutex // guards the following fields
	requests     recorder
	messages     recorder
	posted, done uint32 // numbers of the next requests to be posted and to complete
	failed       bool   // a receive has failed
}

// NewLog returns the Log of a QP whose completions are on a CQ. The CQ must have a completion channel. There is nothing to close.
func NewLog(cq *verbs.CQ) *Log { return &Log{hub: hubOf(cq)} }

// Posted records requests after the call of QP.PostSend that has posted the first n of them. err is the error of that call. It must
// be called before the requests complete.
func (l *Log) Posted(wrs []verbs.SendWR, n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range wrs[:n] {
		wr := &wrs[i]
		l.add(record{kind: recPost, code: uint8(wr.Opcode), number: uint16(l.posted), value: requestLen(wr)}, false)
		l.posted++
	}
	if err != nil {
		l.add(record{kind: recRefused, number: uint16(l.posted), value: errnoOf(err)}, true)
	}
}

// Completed records the completion of the oldest request.
func (l *Log) Completed(wc *verbs.WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := record{kind: recComplete, code: uint8(wc.Status), number: uint16(l.done), value: 1}
	l.done++
	switch wc.Status {
	case verbs.WCSuccess:
		l.add(e, false)
	case verbs.WCWRFlushErr:
		l.requests.addFlush(e, queueRecords, l.hub.currentPause())
	default:
		e.value = wc.VendorErr
		l.add(e, true)
	}
}

// Received records the completion of a receive. It records only the first failure.
func (l *Log) Received(wc *verbs.WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case wc.Status == verbs.WCSuccess:
		l.messages.addMessage(wc, l.hub.currentPause())
	case !l.failed:
		l.failed = true
		l.messages.addReceiveFailure(wc, l.hub.currentPause())
	}
}

// add adds a record of a request. The caller holds the lock.
func (l *Log) add(e record, read bool) {
	l.requests.add(e, queueRecords, l.hub.currentPause(), read)
}

// History returns the last 32 records of requests and the last 8 of messages.
func (l *Log) History() History {
	l.mu.Lock()
	records := append(l.requests.records(), l.messages.records()...)
	l.mu.Unlock()
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	return newHistory(records)
}
