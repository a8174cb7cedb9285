// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"fmt"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// successor makes a QP with the number of a closed one, and its Receiver.
func successor(s *inflight.SharedReceives, old *recvRig) (*recvRig, error) {
	cq := old.qp.RecvCQ()
	qp, err := old.pd.CreateQP(verbs.QPConfig{SRQ: s.SRQ(), SendCQ: cq, RecvCQ: cq})
	if err != nil {
		return nil, err
	}
	if qp.Num() != old.qp.Num() {
		return nil, fmt.Errorf("number of the next QP = %d, want %d: the test shows nothing", qp.Num(), old.qp.Num())
	}
	recv, err := s.Receiver(qp)
	return &recvRig{rig: &rig{qp: qp, hw: qp.Provider().(*stubQP)}, recv: recv, from: old.from, sent: 100}, err
}

// TestMessageOfAClosedQP closes a QP whose last message was not polled. A QP with the same number, which
// is made at that time, gets only its own messages.
func TestMessageOfAClosedQP(t *testing.T) {
	s, rigs := sharedRig(t, inflight.ReceiveConfig{Size: 256, Depth: 16})
	old := rigs[1]
	old.arrive(t)
	made := make(chan error, 1)
	var next *recvRig
	old.hw.closed = func() {
		go func() {
			var err error
			next, err = successor(s, old)
			made <- err
		}()
		time.Sleep(20 * time.Millisecond) // for an error in the order
	}
	if err := old.qp.Close(); err != nil {
		t.Fatalf("QP.Close() = %v", err)
	}
	if err := <-made; err != nil {
		t.Fatalf("successor: %v", err)
	}
	next.check(t)
}

// TestReceiverOfAClosedQP makes a Receiver of a closed QP. It does not take the messages of another QP with
// the same number.
func TestReceiverOfAClosedQP(t *testing.T) {
	s, rigs := sharedRig(t, inflight.ReceiveConfig{Size: 256, Depth: 16})
	old := rigs[1]
	if err := old.qp.Close(); err != nil {
		t.Fatalf("QP.Close() = %v", err)
	}
	next, err := successor(s, old)
	if err != nil {
		t.Fatalf("successor: %v", err)
	}
	late, err := s.Receiver(old.qp)
	if err != nil {
		t.Fatalf("Receiver() of a closed QP = %v", err)
	}
	if m, err := late.Receive(soon(t)); err == nil {
		t.Errorf("Receive() of a closed QP = %v, want an error", m)
	}
	next.check(t)
}

// check receives messages and closes the QP.
func (r *recvRig) check(t *testing.T) {
	t.Helper()
	for range 20 {
		r.arrive(t)
		r.take(t, r.sent-1).Free()
	}
	if err := r.qp.Close(); err != nil {
		t.Errorf("QP.Close() = %v", err)
	}
}
