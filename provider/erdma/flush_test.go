// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// TestFlush has the device flush the requests that it has got. The provider must flush the later requests
// behind these, in order, and wake the waiters.
func TestFlush(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
	e.send(1, 2)
	e.recv(11)
	e.q.SetState(provider.QPErr)
	if !slices.Equal(r.moved, []provider.QPState{provider.QPErr}) {
		t.Errorf("moves of the kernel's QP = %v, want one to ERR", r.moved)
	}
	posted := e.dev.posted()
	e.send(3)
	e.recv(12)
	e.q.BatchBegin()
	if err := e.q.BatchAdd(&provider.SendWR{ID: 4, Opcode: provider.OpWrite}); err != nil {
		t.Fatalf("QP.BatchAdd: %v", err)
	}
	if err := e.q.BatchPost(); err != nil {
		t.Fatalf("QP.BatchPost: %v", err)
	}
	if e.wakes != 0 || e.dev.posted() != posted {
		t.Errorf("%d wakes, doorbell record %d, want 0 and %d before the device has flushed", e.wakes, e.dev.posted(), posted)
	}
	var sends, recvs []uint64
	for range 9 {
		for _, w := range e.poll(1) {
			if w.Status != provider.WCWRFlushErr || w.QPNum != e.q.num {
				t.Errorf("completion = %+v, want WCWRFlushErr of QP %#x", w, e.q.num)
			}
			if w.ID > 10 {
				recvs = append(recvs, w.ID)
			} else {
				sends = append(sends, w.ID)
			}
		}
	}
	if !slices.Equal(sends, []uint64{1, 2, 3, 4}) || !slices.Equal(recvs, []uint64{11, 12}) {
		t.Errorf("completed IDs = %v and %v, want 1 to 4, and 11 and 12", sends, recvs)
	}
	// All later requests are flushed at once.
	e.send(21)
	e.recv(22)
	if e.wakes != 2 {
		t.Errorf("%d wakes, want 2", e.wakes)
	}
	if got := ids(e.poll(9)); !slices.Equal(got, []uint64{21, 22}) {
		t.Errorf("completed IDs = %v, want 21 and 22", got)
	}
	// Completions that the program never polls do not grow without bound.
	for i := 0; ; i++ {
		n, err := e.q.PostRecv([]provider.RecvWR{{}})
		if errors.Is(err, provider.ErrFull) && n == 0 {
			break
		}
		if err != nil || i > e.c.entries {
			t.Fatalf("PostRecv of receive %d: %v, want ErrFull when the CQ is full", i, err)
		}
	}
	before := e.q.Stats()
	if n, err := e.q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend = %d, %v, want 0, ErrFull", n, err)
	}
	if after := e.q.Stats(); after != before {
		t.Errorf("counts after a refused post = %+v, want %+v", after, before)
	}
	if n := len(e.poll(100)); n != e.c.entries {
		t.Errorf("%d flushed completions, want %d", n, e.c.entries)
	}
}

// TestFlushUnknown has the device stop before the provider moves the QP, so that the device ignores requests
// and does not flush them. The provider must flush them in the end, after the completions that the program has
// not polled.
func TestFlushUnknown(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e, other := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8}), r.connected(t, provider.QPCap{})
	var wakes atomic.Int32
	e.c.wake = func() { wakes.Add(1) }
	e.send(1)
	e.dev.flush()
	e.send(2, 3)
	e.recv(11)
	e.q.SetState(provider.QPErr)
	e.send(4)
	for end := time.Now().Add(30 * time.Second); wakes.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the provider has not flushed the requests")
		}
	}
	if got := ids(e.poll(9)); !slices.Equal(got, []uint64{1, 2, 3, 4, 11}) {
		t.Errorf("completed IDs = %v, want 1 to 4 and 11", got)
	}
	// A late completion of the device does not count.
	e.c.skipped.Store(0)
	r.device.cqs[e.c.handle].add(cqe{op: opSend, index: 1, qp: e.q.num, status: statusFlushed})
	if got := e.poll(9); len(got) != 0 || e.c.skipped.Load() != 0 {
		t.Errorf("completions = %+v with %d faults, want none", got, e.c.skipped.Load())
	}
	other.send(5)
}

// TestPast16Bits flushes receives whose numbers do not fit in the 16 bits that a completion has.
func TestPast16Bits(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.connected(t, provider.QPCap{RecvWR: 8})
	e.q.rq.head, e.q.rq.tail = 1<<16-1, 1<<16-1
	e.dev.received = 1<<16 - 1
	e.recv(1, 2, 3)
	e.dev.flush()
	if got := e.poll(9); !slices.Equal(ids(got), []uint64{1, 2, 3}) || got[1].Status != provider.WCWRFlushErr {
		t.Errorf("completions = %+v, want flushed receives 1 to 3", got)
	}
}

// TestFailedMove has the kernel refuse the move to the error state. The held requests go to the device.
func TestFailedMove(t *testing.T) {
	r := newRig(t, uverbs.NodeCA)
	e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
	e.send(1)
	r.fail[abi.IB_USER_VERBS_CMD_MODIFY_QP] = syscall.EIO
	if err := e.q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); !errors.Is(err, syscall.EIO) {
		t.Fatalf("QP.Modify = %v, want EIO", err)
	}
	if e.q.State() != provider.QPRTS {
		t.Errorf("QP.State() = %v, want RTS", e.q.State())
	}
	e.q.hold()
	e.send(2)
	e.recv(11)
	e.q.resume()
	if s, n := e.dev.posted(), e.dev.receives(); s != 2 || n != 1 {
		t.Errorf("doorbell records = %d, %d, want 2 blocks and 1 receive", s, n)
	}
}

// TestReset resets a QP on RoCE, and uses it again.
func TestReset(t *testing.T) {
	r := newRig(t, uverbs.NodeCA)
	e := r.connected(t, provider.QPCap{SendWR: 4, RecvWR: 4})
	e.send(1, 2)
	e.recv(11, 12, 13)
	for _, s := range []provider.QPState{provider.QPErr, provider.QPReset} {
		if err := e.q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify to %v: %v", s, err)
		}
	}
	if got := e.poll(9); len(got) != 0 {
		t.Errorf("completions after a reset = %+v, want none", got)
	}
	if _, err := e.q.PostRecv([]provider.RecvWR{{}}); !errors.As(err, new(*provider.QPStateError)) {
		t.Errorf("PostRecv in RESET = %v, want a QPStateError", err)
	}
	for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
		e.q.SetState(s)
	}
	peer := r.connected(t, provider.QPCap{})
	e.dev.peer, peer.dev.peer = peer.dev, e.dev
	for i := range uint64(10) {
		peer.recv(i)
		e.send(100 + i)
		r.device.run()
		if got := ids(e.poll(2)); !slices.Equal(got, []uint64{100 + i}) {
			t.Fatalf("completed IDs = %v, want %d", got, 100+i)
		}
		peer.poll(2)
	}
}

// TestStateChanges checks state changes on iWARP. The kernel accepts all of them, but ignores the invalid ones.
func TestStateChanges(t *testing.T) {
	for _, tc := range []struct {
		from, to provider.QPState
		ok       bool
	}{
		{provider.QPReset, provider.QPInit, true}, {provider.QPInit, provider.QPReset, true}, {provider.QPInit, provider.QPErr, true},
		{provider.QPInit, provider.QPSQD, false}, {provider.QPRTR, provider.QPSQE, false},
		{provider.QPRTS, provider.QPRTS, true}, {provider.QPRTS, provider.QPSQD, true}, {provider.QPSQD, provider.QPErr, true},
		{provider.QPErr, provider.QPErr, true}, {provider.QPErr, provider.QPReset, false}, {provider.QPErr, provider.QPInit, false},
		{provider.QPRTS, provider.QPReset, false}, {provider.QPRTS, provider.QPRTR, false}, {provider.QPSQD, provider.QPRTS, false},
	} {
		e := newRig(t, uverbs.NodeRNIC).make(t, provider.QPConfig{})
		e.q.setState(tc.from)
		err := e.q.Modify(&provider.QPAttr{State: tc.to}, provider.QPAttrState)
		want := tc.from
		if tc.ok {
			want = tc.to
		}
		if (err == nil) != tc.ok || !tc.ok && !errors.Is(err, syscall.EINVAL) || e.q.State() != want {
			t.Errorf("QP.Modify from %v to %v = %v, state = %v, want state %v", tc.from, tc.to, err, e.q.State(), want)
		}
	}
}

// TestFinalError checks that a connected QP of iWARP cannot be connected again.
func TestFinalError(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.connected(t, provider.QPCap{})
	e.q.SetState(provider.QPErr)
	e.q.SetState(provider.QPRTS)
	if e.q.State() != provider.QPErr {
		t.Errorf("QP.State() = %v, want ERR", e.q.State())
	}
	if err := e.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP.Modify to RESET = %v, want EINVAL", err)
	}
}
