// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestDone checks that the Done channels of a QP and of a device are closed when the object
// ends, and not before.
func TestDone(t *testing.T) {
	rt := fakeRoute()
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	isDone := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	early := e.qp.Done()
	if isDone(early) || isDone(e.dev.Done()) {
		t.Error("Done of an open QP or device is closed")
	}
	if err := e.qp.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if !isDone(early) || !isDone(e.qp.Done()) {
		t.Error("Done of a closed QP is not closed")
	}
	internals.MarkRemoved(e.dev)
	if !isDone(e.dev.Done()) {
		t.Error("Done of a removed device is not closed")
	}
}
