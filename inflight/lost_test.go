// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// sleep waits until another goroutine leads the CQ and sleeps.
func sleep() { time.Sleep(20 * time.Millisecond) }

var errLate = errors.New("nothing after 5 s")

// early receives an error before the context of soon ends.
func early(errs <-chan error) error {
	select {
	case err := <-errs:
		return err
	case <-time.After(5 * time.Second):
		return errLate
	}
}

// heldPost holds back a post of one request. It returns the operation when release is called. Requests
// that are submitted before that are posted by the same goroutine.
func heldPost(t *testing.T, r *rig) (release func() inflight.Op) {
	t.Helper()
	hold := make(chan struct{})
	r.hw.mu.Lock()
	r.hw.hold = hold
	r.hw.mu.Unlock()
	first := make(chan inflight.Op, 1)
	pending := r.Pending()
	go func() { first <- r.submit(t, 1000, nil) }()
	for r.Pending() == pending {
		time.Sleep(10 * time.Microsecond)
	}
	return func() inflight.Op {
		r.hw.mu.Lock()
		r.hw.hold = nil
		r.hw.mu.Unlock()
		close(hold)
		return <-first
	}
}

// TestRefusalWakesTheLeader has PostSend refuse the request of the leading goroutine, on another
// goroutine. No completion comes, and the leader returns.
func TestRefusalWakesTheLeader(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.refuse = func(wr *verbs.SendWR) error {
		if wr.RemoteAddr == 1 {
			return syscall.EINVAL
		}
		return nil
	}
	release := heldPost(t, r)
	p := r.submit(t, 1, nil)
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(soon(t)) }()
	sleep()
	release()
	if err := early(waited); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Wait() of a refused request = %v, want %v", err, syscall.EINVAL)
	}
}

// TestDoorbellFailureWakesTheLeader is TestRefusalWakesTheLeader with a failed doorbell.
func TestDoorbellFailureWakesTheLeader(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	release := heldPost(t, r)
	p := r.submit(t, 1, nil)
	waited := make(chan error, 1)
	go func() { waited <- p.Wait(soon(t)) }()
	sleep()
	r.hw.mu.Lock()
	r.hw.bell = syscall.ENOMEM
	r.hw.mu.Unlock()
	release()
	if err := early(waited); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("Wait() after a failed doorbell = %v, want %v", err, syscall.ENOMEM)
	}
}

// TestFailedDoorbellIsRungAgain has the doorbell of a post fail while another request waits. That
// request is posted, with another doorbell.
func TestFailedDoorbellIsRungAgain(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.bells = []error{syscall.ENOMEM}
	release := heldPost(t, r)
	p := r.submit(t, 1, nil)
	first := release()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 2)...)
	wantErr(t, "the operation", p, nil)
	first.Abandon()
}

// TestRefusedRequestsThatHaveCompleted has a device complete two requests before PostSend refuses them.
func TestRefusedRequestsThatHaveCompleted(t *testing.T) {
	for _, refusal := range []error{syscall.EINVAL, verbs.ErrFull} {
		r := newRig(t, inflight.Config{}, verbs.QPConfig{})
		r.hw.refuse = func(wr *verbs.SendWR) error {
			if wr.RemoteAddr != 1 {
				return nil
			}
			second := verbs.SendWR{ID: wr.ID + 1, Flags: verbs.SendSignaled}
			r.hw.complete(verbs.WCSuccess, second)
			if err := r.Poll(); err != nil {
				t.Errorf("Poll() = %v, want nil", err)
			}
			return refusal
		}
		release := heldPost(t, r)
		first, second := r.submit(t, 1, nil), r.submit(t, 2, nil)
		held := release()
		wantErr(t, "the first request", first, nil)
		wantErr(t, "the second request", second, nil)
		wantErr(t, "the request before", held, nil)
		p := r.submit(t, 3, nil)
		r.hw.take(t, 1) // the request before
		r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
		wantErr(t, "the next request", p, nil)
	}
}

// TestFunctionOfARefusedRequest has PostSend refuse a request with a function, while the goroutine of
// the hub sleeps. The function is called without a completion.
func TestFunctionOfARefusedRequest(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	r.hw.refuse = func(wr *verbs.SendWR) error {
		if wr.RemoteAddr == 1 {
			return syscall.EINVAL
		}
		return nil
	}
	results := make(chan error, 2)
	for n := range 2 {
		if err := r.Go(soon(t), write(n), nil, func(err error) { results <- err }); err != nil {
			t.Fatalf("Go(%d) = %v", n, err)
		}
		sleep()
	}
	if err := early(results); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the result of the refused request is %v, want %v", err, syscall.EINVAL)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
}

// TestWithdrawLetsOthersIn withdraws a READ that waits for the depth of the connection. The WRITE
// behind it is posted, and a Start that waits for room goes on, although no completion comes.
func TestWithdrawLetsOthersIn(t *testing.T) {
	r := newRig(t, inflight.Config{MaxReads: 1}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 4}})
	submit := func(wr *verbs.SendWR) inflight.Op {
		t.Helper()
		p, err := r.Submit(wr, nil)
		if err != nil {
			t.Fatalf("Submit(%v) = %v", wr.Opcode, err)
		}
		return p
	}
	submit(&verbs.SendWR{Opcode: verbs.OpRead})
	blocked := submit(&verbs.SendWR{Opcode: verbs.OpRead})
	for r.Pending() < r.qp.Cap().SendWR {
		submit(write(1))
	}
	started := make(chan error, 1)
	go func() {
		_, err := r.Start(soon(t), write(2), nil)
		started <- err
	}()
	sleep()
	if !blocked.Withdraw() {
		t.Fatal("Withdraw() of a READ beyond the depth = false, want true")
	}
	if err := early(started); err != nil {
		t.Errorf("Start() after Withdraw = %v", err)
	}
	r.hw.take(t, r.qp.Cap().SendWR)
}

// TestRoomBeforeTheQueueWaits has the program take its completions between the refusal of a full
// queue and the return of PostSend. No further completion comes, and the request is posted.
func TestRoomBeforeTheQueueWaits(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	other := r.submit(t, 1, nil) // its goroutine leads
	r.hw.take(t, 1)
	ctx, stop := context.WithCancel(context.Background())
	var leader sync.WaitGroup
	leader.Go(func() { other.Wait(ctx) })
	sleep()
	r.hw.refuse = func(*verbs.SendWR) error {
		r.hw.refuse = nil
		var wcs [1]verbs.WC
		r.hw.cq.mu.Lock()
		r.hw.cq.queue = append(r.hw.cq.queue, verbs.WC{ID: 5}) // wakes no goroutine
		r.hw.cq.mu.Unlock()
		if n, err := r.qp.SendCQ().Poll(wcs[:]); n != 1 || err != nil {
			t.Errorf("Poll() = %d, %v, want 1", n, err)
		}
		return verbs.ErrFull
	}
	r.submit(t, 2, nil)
	r.hw.take(t, 1)
	stop()
	leader.Wait()
}

// TestRefusedDatagram has a UD QP, which takes no WRITE, refuse a request after another one. The
// earlier one completes.
func TestRefusedDatagram(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{Type: verbs.UD})
	r.hw.refuse = func(wr *verbs.SendWR) error {
		if wr.Opcode == verbs.OpWrite {
			return syscall.EINVAL
		}
		return nil
	}
	release := heldPost(t, r)
	p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpSend}, nil)
	if err != nil {
		t.Fatalf("Submit() of a SEND = %v", err)
	}
	bad := r.submit(t, 1, nil)
	release()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	wantErr(t, "the SEND", p, nil)
	wantErr(t, "the WRITE", bad, syscall.EINVAL)
}

// TestResetRemovesLost resets the QP. Lost of an earlier New is no longer called, and Lost of a later New is.
func TestResetRemovesLost(t *testing.T) {
	lost := make(chan string, 2)
	r := newRig(t, inflight.Config{Lost: func(error) { lost <- "the earlier" }}, verbs.QPConfig{})
	if err := r.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
		t.Fatalf("Modify() = %v", err)
	}
	if _, err := inflight.New(r.qp, inflight.Config{Lost: func(error) { lost <- "the later" }}); err != nil {
		t.Fatalf("New() = %v", err)
	}
	r.hw.bell = syscall.ENOMEM
	p := r.submit(t, 1, nil)
	if got := <-lost; got != "the later" {
		t.Errorf("%s Lost was called, want the later", got)
	}
	sleep()
	if n := len(lost); n != 0 {
		t.Errorf("further calls of Lost = %d, want 0", n)
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 1)...)
	_ = p.Wait(soon(t))
}

// TestLostOnADeadCQ calls New again after the hub of the CQ has failed. Lost of that call is called.
func TestLostOnADeadCQ(t *testing.T) {
	lost := make(chan error, 2)
	cfg := inflight.Config{Lost: func(err error) { lost <- err }}
	r := newRig(t, cfg, verbs.QPConfig{})
	r.hw.cq.mu.Lock()
	r.hw.cq.fail = syscall.EIO
	r.hw.cq.mu.Unlock()
	if err := r.Go(soon(t), write(1), nil, func(error) {}); err != nil {
		t.Fatalf("Go() = %v", err)
	}
	if err := <-lost; !errors.Is(err, syscall.EIO) {
		t.Errorf("Lost(%v), want %v", err, syscall.EIO)
	}
	sleep()
	if _, err := inflight.New(r.qp, cfg); err != nil {
		t.Fatalf("New() = %v", err)
	}
	if err := early(lost); !errors.Is(err, syscall.EIO) {
		t.Errorf("Lost(%v) of the second New, want %v", err, syscall.EIO)
	}
}
