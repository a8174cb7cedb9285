// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"fmt"
	"sync"

	"purerdma/verbs"
)

// ledger records the posted work requests of a test that posts and polls at random. Each
// request may complete at most once, on the CQ of its queue and with the number of its QP. In
// the end, each request that must complete has completed, unless its QP was closed.
type ledger struct {
	mu     sync.Mutex
	last   uint64
	all    map[uint64]*request
	faults []string
}

// request is a posted work request.
type request struct {
	qp   *verbs.QP // nil for a receive of an SRQ
	cq   *verbs.CQ // nil for a receive of an SRQ
	must bool      // must complete
	done bool
}

func newLedger() *ledger { return &ledger{all: map[uint64]*request{}} }

// add records n requests that are about to be posted. It returns the ID of the first request.
// The other requests have the following IDs.
func (l *ledger) add(n int, r request) (first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.last + 1
	for range n {
		l.last++
		one := r
		l.all[l.last] = &one
	}
	return first
}

// retract removes the requests from an ID to the last one of a post, which were not posted.
func (l *ledger) retract(from, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := from; id <= last; id++ {
		if r := l.all[id]; r.done {
			l.fault("request %d completed, but was not posted", id)
		}
		delete(l.all, id)
	}
}

// complete records a completion from a CQ.
func (l *ledger) complete(cq *verbs.CQ, wc *verbs.WC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.all[wc.ID]
	switch {
	case r == nil:
		l.fault("completion %+v of no request", *wc)
	case r.done:
		l.fault("request %d completed twice: %+v", wc.ID, *wc)
	case r.qp != nil && (r.cq != cq || wc.QPNum != r.qp.Num()):
		l.fault("request %d of %v completed on another CQ, or for another QP: %+v", wc.ID, r.qp, *wc)
	}
	if r != nil {
		r.done = true
	}
}

// closed records that a QP is about to be closed. Its requests need not complete any more.
func (l *ledger) closed(qp *verbs.QP) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		if r.qp == qp {
			r.must = false
		}
	}
}

// outstanding returns the number of requests that must still complete.
func (l *ledger) outstanding() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		if r.must && !r.done {
			n++
		}
	}
	return n
}

// missing describes the requests that must still complete.
func (l *ledger) missing() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.all {
		if r.must && !r.done {
			all = append(all, fmt.Sprintf("%d of %v in %v", id, r.qp, r.qp.State()))
		}
	}
	return all
}

// completed returns the number of completed requests.
func (l *ledger) completed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		if r.done {
			n++
		}
	}
	return n
}

// fail records the error of a call.
func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault("%v", err)
}

// fault records a violation. The caller holds the lock.
func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// report returns the violations.
func (l *ledger) report() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}
