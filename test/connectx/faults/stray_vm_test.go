// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"testing"

	"purerdma/verbs"
)

// TestStrayCompletion makes the card complete a request of a QP after the QP was destroyed. The
// other QPs of its CQ must lose nothing.
func TestStrayCompletion(t *testing.T) {
	l := newLink(t)
	cq := l.client.QP().SendCQ()
	for range 5 {
		qp, err := l.client.PD().CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if err == nil {
			err = qp.Close()
		}
		if err != nil {
			t.Fatalf("PD.CreateQP, QP.Close: %v", err)
		}
		l.hosts[1].Fault(t, "stray", 0)
		l.messages(t, 20)
	}
}
