// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"fmt"
	"time"

	"purerdma/verbs"
)

// judge checks the end when no more completions can arrive.
func (e *end) judge() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.finished() {
		if e.plan.ending == orderly && !e.dropped() && e.ownFault && !e.unheard() {
			e.fault("the connection has broken: %w: %s", e.over, e.state())
		}
		return
	}
	if now(&e.s.spoil.region) {
		e.mem.mr.Bytes()[777] ^= 1
	}
	if sum := e.mem.checksum(e.mem.mr.Bytes()); sum != uint32(e.fin.b) {
		e.fault("what the peer has written has the checksum %#x, and what is there %#x", e.fin.b, sum)
	}
}

// late waits for completions in the CQ of an SRQ after the peer has ended the connection. An
// SRQ has no flushed receive of the end itself that would mark the last completion. It returns
// when the end has all messages, or after a timeout.
func (e *end) late() {
	if e.place.pool == nil || e.plan.ending != orderly || e.dropped() {
		return
	}
	for start := time.Now(); time.Since(start) < 10*time.Second && e.s.failed.Err() == nil; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		all := e.finished()
		e.mu.Unlock()
		if all {
			return
		}
	}
}

// drain waits until all posted requests have completed, after the QP was moved to the error
// state. It reports missing completions.
func (e *end) drain() {
	limit := e.s.patience
	if e.s.failed.Err() != nil {
		limit = time.Second
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		missing, unposted := 0, map[uint64]bool{}
		for _, wr := range e.queue {
			unposted[wr.ID] = true
		}
		var which []string
		for id, r := range e.out {
			if r.signaled && !unposted[id] {
				missing++
				which = append(which, fmt.Sprintf("%v %d", r.opcode, uint32(id)))
			}
		}
		missing += len(e.recvs)
		lastOK, made := e.lastOK, e.n
		e.mu.Unlock()
		if missing == 0 {
			return
		}
		if time.Now().After(deadline) {
			// If requests after a missing one have succeeded, it was lost before the QP was
			// flushed.
			e.fault("lost: %v after the QP was moved to the error state, %d receives and these requests have not completed: %v; the last to succeed was %d, of %d; %s",
				limit, len(e.recvs), which, lastOK, made, e.unseen())
			return
		}
	}
}

// unseen describes the completions in the CQs of an end for which no waiter was woken.
func (e *end) unseen() string {
	var wcs [16]verbs.WC
	var all []verbs.WC
	for _, cq := range []*verbs.CQ{e.place.send.cq, e.place.recv.cq} {
		n, err := cq.Poll(wcs[:])
		if err != nil {
			return err.Error()
		}
		all = append(all, wcs[:n]...)
	}
	if len(all) == 0 {
		return "their completions are not there"
	}
	return fmt.Sprintf("no waiter was woken for %+v", all)
}

// free closes all objects of the end.
func (e *end) free() {
	var errs []error
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.s.left.Store(e.serial, nil) // it may have completions left
	errs = append(errs, e.closeWindows())
	if e.qp != nil {
		errs = append(errs, e.qp.Close())
		e.place.send.remove(e)
		e.place.recv.remove(e)
	}
	e.mu.Lock()
	for _, o := range e.offers {
		errs = append(errs, o.close())
	}
	e.mu.Unlock()
	if e.arena != nil {
		errs = append(errs, e.arena.Close())
	}
	if e.mem != nil {
		errs = append(errs, e.mem.mr.Close())
	}
	errs = append(errs, e.place.close(e.node))
	for _, err := range errs {
		if err != nil {
			e.fault("closing: %w", err)
		}
	}
}
