// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"purerdma/uverbs"
	"purerdma/verbs"
)

// says checks that an error is an OpError of an errno, and that its text contains some words.
func says(t *testing.T, err error, errno error, words ...string) {
	t.Helper()
	var op *verbs.OpError
	if !errors.As(err, &op) || !errors.Is(err, errno) {
		t.Errorf("error = %v, want an OpError of %v", err, errno)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error = %q, want %q in it", err, w)
		}
	}
}

// TestErrorsNameTheField checks the errors of unsupported values. They name the field and the
// value, and the library returns them before a command.
func TestErrorsNameTheField(t *testing.T) {
	rt := fakeRoute()
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	init := verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	says(t, e.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 9}, init), syscall.EINVAL, "modify", "Port is 9, the device has 1")
	says(t, e.qp.Modify(&verbs.QPAttr{State: verbs.QPInit}, init), syscall.EINVAL, "Port is 0, the device has 1")
	modify(t, e.qp, verbs.QPAttr{State: verbs.QPInit, Port: 1}, init)
	rtr := verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
	says(t, e.qp.Modify(&verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024}, rtr), syscall.EINVAL, "AH.Port is 0")
	says(t, second(e.dev.QueryPort(9)), syscall.EINVAL, "query port of rxe0", "port is 9, the device has 1")
	says(t, second(e.dev.CreateCQ(verbs.CQConfig{Vector: 1 << 20})), syscall.EINVAL, "create CQ on rxe0", "completion vector 1048576, the device has ")
	says(t, second(e.dev.CreateCQ(verbs.CQConfig{Vector: -1})), syscall.EINVAL, "completion vector -1")
	says(t, second(e.pd.CreateAH(verbs.AHAttr{Port: 7})), syscall.EINVAL, "create AH on rxe0", "Port is 7, the device has 1")
	const most = math.MaxInt &^ (1<<16 - 1) // whole pages of any system
	says(t, second(e.pd.Alloc(most, verbs.LocalWrite)), syscall.ENOMEM, "allocate memory for rxe0", fmt.Sprintf("%d bytes", most))
}

// TestErrorsNameTheRefusal checks the errors of refused commands. The kernel returns one errno
// for many reasons.
func TestErrorsNameTheRefusal(t *testing.T) {
	rt := fakeRoute()
	var refuse atomic.Bool
	rt.fake.Intercept = func(*uverbs.Request) error {
		if refuse.Load() {
			return syscall.EINVAL
		}
		return nil
	}
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	refuse.Store(true)
	t.Cleanup(func() { refuse.Store(false) })
	says(t, second(e.pd.Alloc(4096, verbs.LocalWrite|1<<13)), syscall.EINVAL, "register memory on rxe0", "4096 bytes, Access LocalWrite|0x2000")
	access := verbs.LocalWrite | 1<<14
	says(t, second(e.pd.RegDMABuf(0, 0, 4096, 0, access)), syscall.EINVAL, "4096 bytes, Access LocalWrite|0x4000")
	says(t, e.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1, PKeyIndex: 9, Access: access},
		verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess), syscall.EINVAL,
		"State INIT", "PKeyIndex 9", "Access LocalWrite|0x4000")
	ah := verbs.AHAttr{Port: 1, Global: true, GRH: verbs.GlobalRoute{DGID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}, SGIDIndex: 200}}
	says(t, second(e.pd.CreateAH(ah)), syscall.EINVAL, "create AH on rxe0", "Port 1", "DGID fe80::1", "SGIDIndex 200")
	says(t, second(e.dev.QueryPort(1)), syscall.EINVAL, "port 1")
}

// TestErrorsNameTheQP checks that errors name the QP, because a program has many QPs of one
// device.
func TestErrorsNameTheQP(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, _ := rt.pair(t, verbs.QPCap{})
		name := fmt.Sprintf("QP %#x of %s", l.qp.Num(), rt.a.Device)
		if l.qp.String() != name {
			t.Errorf("String() = %v, want %q", l.qp, name)
		}
		var b verbs.Batch
		b.Reset(l.qp)
		long := make([]verbs.SGE, l.qp.Cap().SendSGE+1)
		b.Add(&verbs.SendWR{Opcode: verbs.OpSend, SGList: long})
		says(t, b.Post(), syscall.EINVAL, "post batch to "+name+": ")
		says(t, second(l.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGList: long}})), syscall.EINVAL, "post send to "+name+": ")
		says(t, second(l.qp.PostRecv(make([]verbs.RecvWR, 1<<12+1))), verbs.ErrFull, "post receive to "+name+": ",
			fmt.Sprintf("work queue is full (RecvWR is %d)", l.qp.Cap().RecvWR))
		says(t, second(l.qp.PostSend(slices.Repeat([]verbs.SendWR{{Opcode: verbs.OpSend}}, 1<<12+1))), verbs.ErrFull, "post send to "+name+": ",
			fmt.Sprintf("work queue is full (SendWR is %d)", l.qp.Cap().SendWR))
		says(t, l.qp.Modify(&verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState), syscall.EINVAL, "modify "+name+": ")
		says(t, l.qp.AttachMulticast(verbs.GID{0: 0xff}, 0), syscall.EINVAL, "attach multicast group to "+name+": ")
	})
}

// TestBatchWithoutQP checks that the error of a zero Batch looks like the errors of other
// batches.
func TestBatchWithoutQP(t *testing.T) {
	var b verbs.Batch
	for range 2 {
		says(t, b.Post(), syscall.EINVAL, "post batch", "Reset")
		b.Discard()
	}
}

// TestExclusiveCQ checks that a CQ with both queues of a QP is not exclusive.
func TestExclusiveCQ(t *testing.T) {
	rt := fakeRoute()
	_, pd := openPD(t, rt.h, rt.a.Device)
	cq := createCQ(t, pd.Device(), verbs.CQConfig{})
	for i := range 2 {
		qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatalf("PD.CreateQP: %v", err)
		}
		closer(t, qp)
		if internals.Exclusive(cq) {
			t.Errorf("Exclusive of a CQ with %d QPs = true, want false", i+1)
		}
	}
}

// TestReadsWithoutRoom posts READs that would wait forever on rxe, with each way of posting. It
// then connects with room for READs.
func TestReadsWithoutRoom(t *testing.T) {
	rt := fakeRoute()
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	l.init(t)
	r.connectTo(t, l)
	l.rtr(t, r)
	a, mask := l.toRTS()
	a.MaxRdAtomic = 0
	modify(t, l.qp, a, mask)
	for _, op := range []verbs.SendOpcode{verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap} {
		wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
		says(t, second(l.qp.PostSend([]verbs.SendWR{wr})), verbs.ErrNoReads, "MaxRdAtomic", "InitiatorDepth")
	}
	var b verbs.Batch
	b.Reset(l.qp)
	b.Read(1, l.buf.Slice(0, 8), r.buf.Remote(), 0)
	says(t, b.Post(), verbs.ErrNoReads, "MaxRdAtomic")
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	l.ok(t, 1)
	for _, e := range []*end{l, r} {
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	}
	connect(t, l, r)
	l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	l.ok(t, 1)
}
