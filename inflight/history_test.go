// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// lines returns the entries of a History without their times.
func lines(h inflight.History) []string {
	var all []string
	for _, e := range h.Entries {
		all = append(all, fmt.Sprintf("%s %s: %s", e.Event, e.Object, e.Status))
	}
	return all
}

// wantLines compares the entries of a History, without their times.
func wantLines(t *testing.T, h inflight.History, want ...string) {
	t.Helper()
	if got := lines(h); !slices.Equal(got, want) {
		t.Errorf("History() =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHistoryOfAFailure has a request fail before others. Their flushes are one entry, so that the failure
// stays in the History.
func TestHistoryOfAFailure(t *testing.T) {
	const flushed = 100
	r := newRig(t, inflight.Config{SignalAll: true}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 200}})
	wantLines(t, r.History())
	first := r.submit(t, 1, nil)
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the first", first, nil)
	p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{{Length: 4000}, {Length: 96}}}, nil)
	if err != nil {
		t.Fatalf("Submit: %v", err)
	}
	ops := []inflight.Op{p}
	for i := range flushed {
		ops = append(ops, r.submit(t, i, nil))
	}
	wrs := r.hw.take(t, 1+flushed)
	failed := r.hw.completion(&wrs[0], verbs.WCRetryExcErr)
	failed.VendorErr = 0x81
	r.hw.cq.put(failed)
	r.hw.complete(verbs.WCWRFlushErr, wrs[1:]...)
	wantStatus(t, "the failed one", ops[0], verbs.WCRetryExcErr)
	wantStatus(t, "the last one", ops[flushed], verbs.WCWRFlushErr)
	h := r.History()
	if n := len(h.Entries); n != 32 {
		t.Fatalf("len(History().Entries) = %d, want 32", n)
	}
	for i, e := range h.Entries[:30] {
		if want := fmt.Sprintf("request %d", 72+i); e.Event != "post" || e.Object != want {
			t.Errorf("History().Entries[%d] = %+v, want the post of %s", i, e, want)
		}
	}
	h.Entries = h.Entries[30:]
	wantLines(t, h,
		"complete request 1: transport retry counter exceeded (vendor syndrome 0x81)",
		"complete requests 2 to 101: work request flushed")
	for i, e := range h.Entries {
		if !e.Exact {
			t.Errorf("Entries[%d].Exact of a failure = false, want true", i)
		}
	}
}

// TestHistoryOfRequests completes one request of several, has a post fail, and closes the QP.
func TestHistoryOfRequests(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	ops := gathered(t, r, 3)
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 3)...)
	wantErr(t, "the last one", ops[2], nil)
	r.hw.refuse = func(*verbs.SendWR) error { return syscall.EINVAL }
	wantErr(t, "the refused one", r.submit(t, 4, nil), syscall.EINVAL)
	r.hw.refuse, r.hw.bell = nil, syscall.ENOMEM
	r.submit(t, 5, nil).Abandon()
	if err := r.qp.Close(); err != nil {
		t.Errorf("QP.Close() = %v", err)
	}
	wantLines(t, r.History(),
		"post request 0: WRITE, 0 bytes",
		"post request 1: WRITE, 0 bytes",
		"post request 2: WRITE, 0 bytes",
		"post request 3: WRITE, 0 bytes",
		"complete request 0: success",
		"complete requests 1 to 3: success",
		"post request 4: WRITE, 0 bytes",
		"post request 4: not posted: invalid argument",
		"post request 4: WRITE, 0 bytes",
		"post request 4: the device was not notified: cannot allocate memory",
		"close QP: ")
}

// TestHistoryTimes compares the times of entries with the times of calls. A post on an idle queue and a
// completion after an empty CQ have exact times.
func TestHistoryTimes(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	var before, posted, after []time.Time
	for range 3 {
		before = append(before, time.Now())
		p := r.submit(t, 1, nil)
		posted = append(posted, time.Now())
		if err := r.Poll(); err != nil {
			t.Fatalf("Poll: %v", err)
		}
		r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
		wantErr(t, "the operation", p, nil)
		after = append(after, time.Now())
	}
	h := r.History()
	if len(h.Entries) != 6 {
		t.Fatalf("len(History().Entries) = %d, want 6", len(h.Entries))
	}
	for i, e := range h.Entries {
		from, to := before[i/2], posted[i/2]
		if i%2 == 1 {
			from, to = posted[i/2], after[i/2]
		}
		if !e.Exact || e.Time.Before(from) || e.Time.After(to) {
			t.Errorf("History().Entries[%d] = %+v, want an exact time from %v to %v", i, e, from, to)
		}
	}
	if h.Time.Before(after[2]) || h.Time.After(time.Now()) {
		t.Errorf("History().Time = %v, want the time of the call", h.Time)
	}
}

// TestHistoryUnderLoad has requests in flight at all times. The clock is read for one record in 16, and the
// times never go back.
func TestHistoryUnderLoad(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	last := r.submit(t, 0, nil)
	for i := range 100 {
		p := r.submit(t, i, nil)
		r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
		wantErr(t, "the operation", last, nil)
		last = p
	}
	exact := 0
	h := r.History()
	for i, e := range h.Entries {
		if e.Exact {
			exact++
		}
		if i > 0 && e.Time.Before(h.Entries[i-1].Time) {
			t.Errorf("Entries[%d].Time = %v, want at least %v", i, e.Time, h.Entries[i-1].Time)
		}
	}
	if exact != 2 {
		t.Errorf("exact entries of %d = %d, want 2", len(h.Entries), exact)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the last one", last, nil)
}

// TestHistoryOfMessages receives more messages than a History holds, and then a failure.
func TestHistoryOfMessages(t *testing.T) {
	r := newRecvRig(t, 16, 1<<16)
	for i := range 20 {
		r.arrive(t)
		r.take(t, uint32(i)).Free()
	}
	wr := r.from.pop(t)
	r.hw.recvCQ.put(verbs.WC{ID: wr.ID, Status: verbs.WCLocLenErr, QPNum: r.qp.Num(), VendorErr: 3})
	if m, err := r.recv.Receive(soon(t)); err == nil {
		t.Errorf("Receive() = %v, want an error", m)
	}
	h := r.recv.History()
	if len(h.Entries) != 8 {
		t.Fatalf("len(History().Entries) = %d, want 8", len(h.Entries))
	}
	for i, e := range h.Entries[:7] {
		if want := fmt.Sprintf("message %d", 13+i); e.Event != "receive" || e.Object != want || !strings.HasSuffix(e.Status, " bytes") {
			t.Errorf("History().Entries[%d] = %+v, want %s with its bytes", i, e, want)
		}
	}
	h.Entries = h.Entries[7:]
	wantLines(t, h, "receive message: local length error (vendor syndrome 0x3)")
}

// TestHistoryIsText has the columns of the lines aligned.
func TestHistoryIsText(t *testing.T) {
	now := time.Now()
	h := inflight.History{Time: now, Entries: []inflight.HistoryEntry{
		{Time: now.Add(-12104115 * time.Microsecond), Exact: true, Event: "post", Object: "request 16", Status: "SEND, 64 bytes"},
		{Time: now.Add(-2 * time.Second), Event: "complete", Object: "requests 16 to 18", Status: "success"},
		{Time: now, Exact: true, Event: "close", Object: "QP"},
	}}
	want := "-12.104115s  post      request 16         SEND, 64 bytes\n" +
		">-2.000000s  complete  requests 16 to 18  success\n" +
		"  0.000000s  close     QP\n"
	if got := h.String(); got != want {
		t.Errorf("String() =\n%swant\n%s", got, want)
	}
	if got := (inflight.History{}).String(); got != "" {
		t.Errorf("String() of an empty History = %q, want %q", got, "")
	}
}

// TestHistoryAllocatesNothing measures operations after the ring is full.
func TestHistoryAllocatesNothing(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.instant = true
	ctx, wr := context.Background(), write(1)
	run := func() {
		p, err := r.Start(ctx, wr, nil)
		if err == nil {
			err = p.Wait(ctx)
		}
		if err != nil {
			t.Fatalf("operation: %v", err)
		}
	}
	for range 20 {
		run()
	}
	if n := len(r.History().Entries); n != 32 {
		t.Fatalf("len(History().Entries) = %d, want 32", n)
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("allocations of an operation = %v, want 0", n)
	}
}

// TestHistoryWhileRecording reads the History of a Queue that other goroutines use.
func TestHistoryWhileRecording(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.instant = true
	ctx := soon(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				p, err := r.Start(ctx, write(i), nil)
				if err == nil {
					err = p.Wait(ctx)
				}
				if err != nil {
					t.Errorf("operation %d: %v", i, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for i, e := range r.History().Entries {
			if e.Event != "post" && e.Event != "complete" || e.Time.IsZero() {
				t.Errorf("History().Entries[%d] = %+v, want a post or a completion", i, e)
			}
		}
	}
}
