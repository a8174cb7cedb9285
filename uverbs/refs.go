// SPDX-License-Identifier: Apache-2.0

package uverbs

import "sync/atomic"

// refs counts the calls that use a file descriptor, so that it is not closed, and its number not
// reused, during a call. It costs two atomic operations a call. Unlike the locks of package os it
// needs no closure, because every doorbell uses it.
type refs struct {
	n    atomic.Int64 // calls in progress, and closing
	idle chan struct{}
}

// closing is larger than any number of concurrent calls.
const closing = 1 << 40

func newRefs() *refs { return &refs{idle: make(chan struct{}, 1)} }

// enter starts a call. It returns false after close.
func (r *refs) enter() bool {
	if r.n.Add(1) >= closing {
		r.leave()
		return false
	}
	return true
}

// leave ends a call that enter let in.
func (r *refs) leave() {
	if r.n.Add(-1) == closing {
		// Only the last call after close gets here, but so do calls that enter refuses, many times.
		select {
		case r.idle <- struct{}{}:
		default:
		}
	}
}

// close refuses further calls and waits until none is in progress. It returns
// false if it was called before.
func (r *refs) close() bool {
	for {
		n := r.n.Load()
		if n >= closing {
			return false
		}
		if r.n.CompareAndSwap(n, n+closing) {
			break
		}
	}
	for r.n.Load() != closing {
		<-r.idle
	}
	return true
}
