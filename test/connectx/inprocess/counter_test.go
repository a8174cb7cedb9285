// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"testing"

	"purerdma/test/connectx"
	"purerdma/verbs"
)

// TestReceiveCounterModulo uses a device that numbers receives by their slot, and sends more messages than there
// are slots.
func TestReceiveCounterModulo(t *testing.T) {
	n := quirky(t, connectx.Quirks{ReceiveCounterModulo: true})
	a, b := n.pair(verbs.QPCap{SendWR: 16, RecvWR: 16}, patient)
	stream(t, a, b, 0, 500)
	// Also check the counters of flushed receives.
	for i := range 10 {
		b.recv(verbs.RecvWR{ID: uint64(i)})
	}
	if err := b.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
		t.Fatalf("b.qp.Modify: %v", err)
	}
	for i, wc := range b.wait(10) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCWRFlushErr {
			t.Errorf("completion of flushed receive %d = %+v, want ID %d with %v", i, wc, i, verbs.WCWRFlushErr)
		}
	}
}
