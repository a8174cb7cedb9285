// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// wantErr waits for an operation and compares its error.
func wantErr(t *testing.T, name string, p inflight.Op, want error) {
	t.Helper()
	if err := p.Wait(soon(t)); !errors.Is(err, want) {
		t.Errorf("%s.Wait() = %v, want %v", name, err, want)
	}
}

// wantStatus waits for an operation that fails with a status.
func wantStatus(t *testing.T, name string, p inflight.Op, want verbs.WCStatus) {
	t.Helper()
	var failed *verbs.WCError
	if err := p.Wait(soon(t)); !errors.As(err, &failed) || failed.Status != want {
		t.Errorf("%s.Wait() = %v, want the status %q", name, err, want)
	}
}

// TestOneDoorbellForGatheredOperations holds the first post back. The operations that other
// goroutines start in that time are posted together, in the order of the calls.
func TestOneDoorbellForGatheredOperations(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	release := heldPost(t, r)
	var ops []inflight.Op
	for i := range 9 {
		ops = append(ops, r.submit(t, 1+i, nil))
	}
	ops = append(ops, release())
	wrs := r.hw.take(t, 10)
	for i, wr := range wrs[1:] {
		if wr.RemoteAddr != uint64(1+i) {
			t.Errorf("request %d is that of call %d, want the order of the calls", 1+i, wr.RemoteAddr)
		}
	}
	if c := r.hw.calls; len(c) != 2 || c[0] != 1 || c[1] != 9 {
		t.Errorf("PostSend was called with %v requests, want [1 9]", c)
	}
	if wrs[9].Flags&verbs.SendSignaled == 0 || wrs[0].Flags&verbs.SendSignaled == 0 {
		t.Error("the last request of a post has no SendSignaled")
	}
	signaled := 0
	for _, wr := range wrs[1:] {
		signaled += int(wr.Flags & verbs.SendSignaled / verbs.SendSignaled)
	}
	if signaled == 9 {
		t.Error("all 9 gathered requests have SendSignaled, want some without")
	}
	r.hw.complete(verbs.WCSuccess, wrs...)
	for i, p := range ops {
		if err := p.Wait(soon(t)); err != nil {
			t.Errorf("operation %d: Wait() = %v", i, err)
		}
	}
}

// gathered starts n operations that are posted together.
func gathered(t *testing.T, r *rig, n int, holders ...inflight.Holder) []inflight.Op {
	t.Helper()
	release := heldPost(t, r)
	var ops []inflight.Op
	for i := range n {
		var h inflight.Holder
		if i < len(holders) {
			h = holders[i]
		}
		ops = append(ops, r.submit(t, i, h))
	}
	p := release()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the first", p, nil)
	return ops
}

// TestFailure has a request fail that was posted with others. Those before it have
// succeeded, those after it are flushed.
func TestFailure(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	ops := gathered(t, r, 3)
	wrs := r.hw.take(t, 3)
	if wrs[0].Flags&verbs.SendSignaled != 0 {
		t.Fatal("the first gathered request has SendSignaled, so this tests nothing")
	}
	r.hw.complete(verbs.WCRemAccessErr, wrs[1])
	r.hw.complete(verbs.WCWRFlushErr, wrs[2])
	wantErr(t, "before the failed one", ops[0], nil)
	wantStatus(t, "the failed one", ops[1], verbs.WCRemAccessErr)
	wantStatus(t, "after the failed one", ops[2], verbs.WCWRFlushErr)
}

// TestLostCompletion has a driver lose the completion of a request before a flush. No success is
// assumed.
func TestLostCompletion(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	ops := gathered(t, r, 2)
	r.hw.complete(verbs.WCWRFlushErr, r.hw.take(t, 2)[1])
	wantStatus(t, "the one without completion", ops[0], verbs.WCWRFlushErr)
	wantStatus(t, "the flushed one", ops[1], verbs.WCWRFlushErr)
}

// TestDoorbellFails has the doorbell fail after the requests are queued. Wait returns the error, and
// the operation continues.
func TestDoorbellFails(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.bell = syscall.ENOMEM
	p := r.submit(t, 1, nil)
	r.hw.bell = nil
	pending, ok := errors.AsType[*inflight.PendingError](p.Wait(soon(t)))
	if !ok || !errors.Is(pending, syscall.ENOMEM) || p.Done() {
		t.Errorf("Wait() = %v with Done() = %v, want a PendingError of %v and false", pending, p.Done(), syscall.ENOMEM)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the operation", p, nil)
}

// TestLateRead has a WRITE complete before an earlier READ, as siw does. The READ has not completed
// until its own completion comes, and both count until then.
func TestLateRead(t *testing.T) {
	r := newRigOn(t, stub{lateReads: true}, inflight.Config{MaxReads: 1}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 4}})
	read := func() inflight.Op {
		t.Helper()
		p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpRead}, nil)
		if err != nil {
			t.Fatalf("Submit() of a READ: %v", err)
		}
		return p
	}
	first := read()
	write := r.submit(t, 1, nil)
	second := read()
	wrs := r.hw.take(t, 2)
	r.hw.complete(verbs.WCSuccess, wrs[1])
	wantErr(t, "the WRITE", write, nil)
	if n := r.hw.waiting(); first.Done() || n != 0 {
		t.Errorf("the READ is done: %v, %d more requests are posted, want false and 0", first.Done(), n)
	}
	r.hw.complete(verbs.WCSuccess, wrs[0])
	wantErr(t, "the first READ", first, nil)
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the second READ", second, nil)
}

// TestRefusedRequest has PostSend refuse a request in the middle of others. Only its operation
// fails. The earlier ones complete, although the refused request may be the one with the completion.
func TestRefusedRequest(t *testing.T) {
	for _, bad := range []int{0, 1, 2, 4} {
		r := newRig(t, inflight.Config{}, verbs.QPConfig{})
		r.hw.refuse = func(wr *verbs.SendWR) error {
			if wr.RemoteAddr == uint64(bad) && len(wr.SGList) == 0 && wr.RKey == 7 {
				return syscall.EINVAL
			}
			return nil
		}
		release := heldPost(t, r)
		var ops []inflight.Op
		for i := range 5 {
			wr := write(i)
			wr.RKey = 7
			p, err := r.Submit(wr, nil)
			if err != nil {
				t.Fatalf("Submit(%d) = %v", i, err)
			}
			ops = append(ops, p)
		}
		first := release()
		ctx, stop := context.WithCancel(context.Background())
		var device sync.WaitGroup
		device.Go(func() { // complete the posted requests
			for ctx.Err() == nil {
				if r.hw.waiting() == 0 {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
			}
		})
		wantErr(t, "the first", first, nil)
		for i, p := range ops {
			var want error
			if i == bad {
				want = syscall.EINVAL
			}
			wantErr(t, "an operation", p, want)
		}
		stop()
		device.Wait()
	}
}

// TestDepth never posts more requests than the send queue takes, nor more READs than the
// connection allows. Waiting operations are posted in order when others have completed.
func TestDepth(t *testing.T) {
	r := newRig(t, inflight.Config{MaxReads: 2}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8}})
	depth := r.qp.Cap().SendWR
	var ops []inflight.Op
	for i := range depth + 3 {
		ops = append(ops, r.submit(t, i, nil))
	}
	if n := r.hw.waiting(); n != depth {
		t.Errorf("%d requests are posted, want %d", n, depth)
	}
	if p := ops[depth]; !p.Withdraw() {
		t.Error("Withdraw() of an operation that was not posted = false, want true")
	}
	if ops[0].Withdraw() {
		t.Error("Withdraw() of a posted operation = true, want false")
	}
	for i, p := range ops {
		if i == depth {
			continue
		}
		wr := r.hw.take(t, 1)[0]
		if wr.RemoteAddr != uint64(i) {
			t.Errorf("request %d is that of call %d", i, wr.RemoteAddr)
		}
		wr.Flags |= verbs.SendSignaled
		r.hw.complete(verbs.WCSuccess, wr)
		wantErr(t, "an operation", p, nil)
	}
	read := func() inflight.Op {
		p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpRead}, nil)
		if err != nil {
			t.Fatalf("Submit() of a READ = %v", err)
		}
		return p
	}
	reads := []inflight.Op{read(), read(), read()}
	after := r.submit(t, 9, nil)
	if n := r.hw.waiting(); n != 2 {
		t.Errorf("%d requests are posted after 3 READs of at most 2, want 2", n)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the first READ", reads[0], nil)
	if s := r.Stats(); s.ReadStalls == 0 || s.Started != uint64(depth+3+4) || s.Pending != 3 {
		t.Errorf("Stats() = %+v, want stalls of READs, %d started and 3 pending", s, depth+3+4)
	}
	wrs := r.hw.take(t, 3)
	if wrs[1].Opcode != verbs.OpRead || wrs[2].Opcode != verbs.OpWrite {
		t.Errorf("posted %v and %v, want the READ before the WRITE", wrs[1].Opcode, wrs[2].Opcode)
	}
	r.hw.complete(verbs.WCSuccess, wrs...)
	wantErr(t, "the second READ", reads[1], nil)
	wantErr(t, "the third READ", reads[2], nil)
	wantErr(t, "the WRITE", after, nil)
}

// TestFullQueueOfTheProgram has the program's own requests fill the queue: operations wait.
func TestFullQueueOfTheProgram(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.mu.Lock()
	r.hw.full = true
	r.hw.mu.Unlock()
	p := r.submit(t, 1, nil)
	ended, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(ended); !errors.Is(err, os.ErrDeadlineExceeded) || p.Done() {
		t.Fatalf("Wait() on a full queue = %v with Done() = %v, want %v and false", err, p.Done(), os.ErrDeadlineExceeded)
	}
	r.hw.mu.Lock()
	r.hw.full = false
	r.hw.mu.Unlock()
	r.hw.cq.put(verbs.WC{ID: 5, QPNum: r.qp.Num()}) // the program's request has completed
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(soon(t)) }()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	if err := <-waited; err != nil {
		t.Errorf("Wait() = %v", err)
	}
	var wcs [4]verbs.WC
	if n, err := r.qp.SendCQ().Poll(wcs[:]); n != 1 || err != nil || wcs[0].ID != 5 {
		t.Errorf("Poll() = %v, %v, want the completion of the program's request", wcs[:n], err)
	}
}

// TestMemoryOfAnAbandonedOperation is freed when the request has completed, not before.
func TestMemoryOfAnAbandonedOperation(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	h := new(held)
	p := r.submit(t, 1, h)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait() = %v, want %v", err, context.Canceled)
	}
	p.Abandon()
	if n := h.count(); n != 0 {
		t.Fatalf("the memory was freed %d times before the completion", n)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	for end := time.Now().Add(10 * time.Second); h.count() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the queue's own goroutine polls
	}
	if n := h.count(); n != 1 {
		t.Errorf("the memory was freed %d times, want once", n)
	}
}

// TestClose completes all operations, frees their memory and refuses new ones.
func TestClose(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 4}})
	depth := r.qp.Cap().SendWR
	h := new(held)
	var all sync.WaitGroup
	for i := range depth + 2 { // the last two are not posted
		p := r.submit(t, i, h)
		all.Go(func() { wantErr(t, "a flushed operation", p, net.ErrClosed) })
	}
	all.Go(func() {
		if _, err := r.Start(soon(t), write(99), h); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Start() that waits for room = %v, want %v", err, net.ErrClosed)
		}
	})
	var called atomic.Int32
	time.Sleep(5 * time.Millisecond)
	if err := r.qp.Close(); err != nil {
		t.Fatalf("QP.Close() = %v", err)
	}
	all.Wait()
	if n := h.count(); n != depth+3 {
		t.Errorf("memory was freed %d times, want %d", n, depth+3)
	}
	if err := r.Go(soon(t), write(1), h, func(error) { called.Add(1) }); !errors.Is(err, net.ErrClosed) || called.Load() != 0 {
		t.Errorf("Go() after Close = %v with %d calls, want %v and none", err, called.Load(), net.ErrClosed)
	}
}

// TestFunction calls the function once, with the result, although no goroutine waits.
func TestFunction(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	results := make(chan error, 3)
	h := new(held)
	for i := range 3 {
		if err := r.Go(soon(t), write(i), h, func(err error) { results <- err }); err != nil {
			t.Fatalf("Go() = %v", err)
		}
	}
	wrs := r.hw.take(t, 3)
	r.hw.complete(verbs.WCSuccess, wrs[0])
	r.hw.complete(verbs.WCRetryExcErr, wrs[1])
	if err := <-results; err != nil {
		t.Errorf("the first result is %v, want nil", err)
	}
	var failed *verbs.WCError
	if err := <-results; !errors.As(err, &failed) || failed.Status != verbs.WCRetryExcErr {
		t.Errorf("the second result is %v, want %v", err, verbs.WCRetryExcErr)
	}
	if err := r.qp.Close(); err != nil {
		t.Fatalf("QP.Close() = %v", err)
	}
	if err := <-results; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the third result is %v, want %v", err, net.ErrClosed)
	}
	if n := h.count(); n != 3 {
		t.Errorf("memory was freed %d times, want 3", n)
	}
}

// TestStartInAFunction fills the queue and calls Start in a function, which fails instead of waiting for the
// goroutine that has called the function.
func TestStartInAFunction(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	depth := r.qp.Cap().SendWR
	results := make(chan error, 2)
	h := new(held)
	start := func() error {
		_, err := r.Start(context.Background(), write(1), h)
		return err
	}
	if err := r.Go(soon(t), write(0), nil, func(error) {
		results <- start()
		results <- r.Go(context.Background(), write(1), h, nil)
	}); err != nil {
		t.Fatalf("Go() = %v", err)
	}
	for range depth {
		r.submit(t, 2, nil)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	for range 2 {
		select {
		case err := <-results:
			if !errors.Is(err, syscall.EAGAIN) {
				t.Errorf("Start() in a function = %v, want %v", err, syscall.EAGAIN)
			}
		case <-soon(t).Done():
			t.Fatal("Start() in a function waits")
		}
	}
	if n := h.count(); n != 2 {
		t.Errorf("memory was freed %d times, want 2", n)
	}
	// Other goroutines wait for room.
	waited := make(chan error, 1)
	go func() { waited <- start() }()
	for {
		select {
		case err := <-waited:
			if err != nil {
				t.Errorf("Start() of a full queue = %v, want nil", err)
			}
			return
		case <-time.After(time.Millisecond):
			if n := r.hw.waiting(); n > 0 {
				r.hw.complete(verbs.WCSuccess, r.hw.take(t, n)...)
			}
		}
	}
}

// TestStartWaitsForRoom checks that a completion lets a waiting Start go on.
func TestStartWaitsForRoom(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 4}})
	depth := r.qp.Cap().SendWR
	var ops []inflight.Op
	for i := range depth {
		p, err := r.Start(soon(t), write(i), nil)
		if err != nil {
			t.Fatalf("Start(%d) = %v", i, err)
		}
		ops = append(ops, p)
	}
	ended, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	h := new(held)
	if _, err := r.Start(ended, write(9), h); !errors.Is(err, context.DeadlineExceeded) || h.count() != 1 {
		t.Errorf("Start() without room = %v, memory freed %d times, want %v and once", err, h.count(), context.DeadlineExceeded)
	}
	if got, want := r.Stats(), (inflight.Stats{Started: uint64(depth), Pending: depth, RoomWaits: 1}); got != want {
		t.Errorf("Stats() after a Start without room = %+v, want %+v", got, want)
	}
	started := make(chan error, 1)
	go func() {
		p, err := r.Start(soon(t), write(10), nil)
		ops = append(ops, p)
		started <- err
	}()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, depth)...)
	if err := <-started; err != nil {
		t.Fatalf("Start() = %v", err)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	for _, p := range ops {
		wantErr(t, "an operation", p, nil)
	}
}

// TestOddCompletions passes completions of requests that were never posted, or by another QP. They
// change nothing.
func TestOddCompletions(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	p := r.submit(t, 1, nil)
	wr := r.hw.take(t, 1)[0]
	for _, odd := range []verbs.WC{
		{ID: wr.ID + 1, QPNum: r.qp.Num()},
		{ID: wr.ID - 1, QPNum: r.qp.Num()},
		{ID: wr.ID ^ 1<<32, QPNum: r.qp.Num()}, // of an earlier queue with the same index
		{ID: wr.ID, QPNum: r.qp.Num() + 1},
		{ID: wr.ID | 1<<61, QPNum: r.qp.Num()},
		{ID: 1<<64 - 1, QPNum: r.qp.Num()},
	} {
		r.hw.cq.put(odd)
	}
	ended, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := p.Wait(ended); p.Done() {
		t.Fatalf("Wait() = %v after odd completions, want none", err)
	}
	r.hw.complete(verbs.WCSuccess, wr)
	wantErr(t, "the operation", p, nil)
	var wcs [8]verbs.WC
	n, err := r.qp.SendCQ().Poll(wcs[:])
	if err != nil || n != 3 {
		t.Errorf("Poll() = %+v, %v, want the three completions that are of no queue", wcs[:n], err)
	}
}

// TestPollerBeside has a goroutine poll the CQ for the program's own requests, while others wait
// for operations. Each completion gets to its owner.
func TestPollerBeside(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	const rounds = 300
	ctx, stop := context.WithCancel(context.Background())
	var own atomic.Int32
	var all, device sync.WaitGroup
	all.Go(func() {
		var wcs [4]verbs.WC
		for {
			n, err := r.qp.SendCQ().Wait(ctx, wcs[:])
			if err != nil {
				return
			}
			for _, wc := range wcs[:n] {
				if wc.ID >= 1<<63 {
					t.Errorf("CQ.Wait() returned the completion of an operation, ID %#x", wc.ID)
				}
				own.Add(1)
			}
		}
	})
	device.Go(func() {
		for range 3 * rounds {
			r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
			r.hw.cq.put(verbs.WC{ID: 3})
		}
	})
	var callers sync.WaitGroup
	for g := range 3 {
		callers.Go(func() {
			for i := range rounds {
				wantErr(t, "an operation", r.submit(t, g*rounds+i, nil), nil)
			}
		})
	}
	callers.Wait()
	device.Wait()
	for end := time.Now().Add(10 * time.Second); own.Load() < 3*rounds && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	stop()
	all.Wait()
	if n := own.Load(); n != 3*rounds {
		t.Errorf("the program got %d completions of its own, want %d", n, 3*rounds)
	}
}

// TestAllocatesNothing covers the three ways to wait, and polls.
func TestAllocatesNothing(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	ctx := soon(t)
	h := new(held)
	done := make(chan error, 1)
	fn := func(err error) { done <- err }
	wcs := make([]verbs.WC, 1)
	one := func() {
		r.hw.mu.Lock()
		wcs[0] = r.hw.completion(&r.hw.posted[0], verbs.WCSuccess)
		r.hw.posted, r.hw.calls = r.hw.posted[:0], r.hw.calls[:0]
		r.hw.mu.Unlock()
		r.hw.cq.put(wcs...)
	}
	for name, f := range map[string]func(){
		"Submit and Wait": func() {
			p, _ := r.Submit(write(1), h)
			one()
			p.Wait(ctx)
		},
		"Post and Poll": func() {
			r.Post(write(1), h, nil)
			one()
			r.Poll()
		},
		"Start and Wait": func() {
			p, _ := r.Start(ctx, write(1), h)
			one()
			p.Wait(ctx)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		r.Go(ctx, write(1), h, fn)
		one()
		<-done
	}); n != 0 {
		t.Errorf("Go allocates %v times, want 0", n)
	}
}

// TestDetach detaches three operations. The first is in flight, the second is not yet posted, and the
// third has completed. All are carried out, and their memory is freed.
func TestDetach(t *testing.T) {
	r := newRig(t, inflight.Config{MaxReads: 1}, verbs.QPConfig{})
	h := new(held)
	var ops []inflight.Op
	for i := range 3 {
		op, err := r.Start(soon(t), &verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: uint64(i)}, h)
		if err != nil {
			t.Fatalf("Start() = %v", err)
		}
		ops = append(ops, op)
	}
	ops[0].Detach() // posted
	ops[1].Detach() // behind it
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	last := r.hw.take(t, 1)
	if got := last[0].RemoteAddr; got != 2 {
		t.Fatalf("the last posted request is number %d, want 2", got)
	}
	r.hw.complete(verbs.WCSuccess, last...)
	var wcs [1]verbs.WC
	if _, err := r.qp.SendCQ().Poll(wcs[:]); err != nil || !ops[2].Done() {
		t.Errorf("Poll() = %v and Done() = %t, want nil and true", err, ops[2].Done())
	}
	ops[2].Detach() // completed
	if n := h.count(); n != 3 {
		t.Errorf("the memory was freed %d times, want 3", n)
	}
	// No effect after the result.
	op := r.submit(t, 3, h)
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	if err := op.Wait(soon(t)); err != nil {
		t.Errorf("Wait() = %v", err)
	}
	next := r.submit(t, 4, h) // has the memory of op
	op.Detach()
	op.Abandon()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	if err := next.Wait(soon(t)); err != nil {
		t.Errorf("Wait() after Detach of an earlier operation = %v", err)
	}
}
