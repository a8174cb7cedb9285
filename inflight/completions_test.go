// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"bytes"
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// taken is one call of the function of HandleCompletions.
type taken struct {
	ids      []uint64 // without the highest bit
	err      error
	byWaiter bool // the goroutine that waits for the Signal has called it
}

// completionsRig has a CQ with HandleCompletions, and a Signal that each call of the function sets.
type completionsRig struct {
	cq     *verbs.CQ
	hw     *stubCQ
	signal *inflight.Signal
	calls  chan taken
}

// newCompletionsRig makes a rig whose function calls before first.
func newCompletionsRig(t *testing.T, after time.Duration, before func()) *completionsRig {
	t.Helper()
	r := &completionsRig{calls: make(chan taken, 8)}
	var err error
	if r.cq, err = newRig(t, inflight.Config{}, verbs.QPConfig{}).dev.CreateCQ(verbs.CQConfig{}); err != nil {
		t.Fatalf("CreateCQ() = %v", err)
	}
	t.Cleanup(func() { r.cq.Close() })
	r.hw = r.cq.Provider().(*stubCQ)
	r.signal = inflight.NewSignal(r.cq)
	inflight.HandleCompletions(r.cq, func(wcs []verbs.WC, err error) {
		before()
		call := taken{err: err, byWaiter: bytes.Contains(debug.Stack(), []byte("(*Signal).Wait("))}
		for i := range wcs {
			call.ids = append(call.ids, wcs[i].ID&^(1<<63))
		}
		r.signal.Set()
		r.calls <- call // after Set, so that a Reset after it lasts
	}, after)
	return r
}

// complete completes requests.
func (r *completionsRig) complete(ids ...uint64) {
	for _, id := range ids {
		r.hw.put(verbs.WC{ID: 1<<63 | id})
	}
}

// wait has a request complete while a goroutine waits, and returns the call of the function.
func (r *completionsRig) wait(t *testing.T, id uint64) taken {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.signal.Wait(soon(t)) }()
	sleep()
	r.complete(id)
	if err := <-done; err != nil {
		t.Fatalf("Wait() = %v", err)
	}
	r.signal.Reset()
	return <-r.calls
}

// TestHandleCompletions takes completions on the goroutine that waits for them, after a goroutine of the
// library has stopped polling for it.
func TestHandleCompletions(t *testing.T) {
	r := newCompletionsRig(t, time.Hour, func() {})
	r.complete(100)
	if call := <-r.calls; call.byWaiter || !slices.Equal(call.ids, []uint64{100}) {
		t.Errorf("first call = %+v, want request 100, and not by a waiting goroutine", call)
	}
	r.signal.Reset()
	r.wait(t, 101) // the goroutine of the library takes this completion, and stops
	for id := uint64(102); id < 105; id++ {
		if call := r.wait(t, id); !call.byWaiter || !slices.Equal(call.ids, []uint64{id}) {
			t.Errorf("call = %+v, want request %d, and by the waiting goroutine", call, id)
		}
	}
}

// TestCompletionsWithoutWaiter takes completions on a goroutine of the library when no goroutine has waited for a
// while.
func TestCompletionsWithoutWaiter(t *testing.T) {
	r := newCompletionsRig(t, time.Millisecond, func() {})
	for range 3 {
		r.complete(1)
		if call := <-r.calls; call.byWaiter {
			t.Errorf("call = %+v, and no goroutine waits", call)
		}
		r.signal.Reset()
		r.wait(t, 2)
	}
}

// TestCompletionsDuringFunction has requests complete while the function runs. Another goroutine polls them, and
// the function takes them later, in their order.
func TestCompletionsDuringFunction(t *testing.T) {
	entered, leave := make(chan struct{}, 8), make(chan struct{})
	r := newCompletionsRig(t, time.Hour, func() {
		entered <- struct{}{}
		<-leave
	})
	r.complete(1)
	<-entered
	for id := uint64(2); id < 5; id++ {
		r.complete(id)
		if n, err := r.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
			t.Errorf("Poll() = %d, %v, want 0, because the function takes the completions", n, err)
		}
	}
	if n := len(entered); n != 0 {
		t.Errorf("the function was called %d times during a call, want 0", n)
	}
	close(leave)
	var got []uint64
	for len(got) < 4 {
		got = append(got, (<-r.calls).ids...)
	}
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("requests %d were taken, want %d", got, want)
	}
}

// TestCompletionsEnd closes the CQ, or makes its polls fail. The function gets the error once.
func TestCompletionsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*completionsRig)
		want error
	}{
		"closed": {func(r *completionsRig) { r.cq.Close() }, net.ErrClosed},
		"failed": {func(r *completionsRig) {
			r.hw.mu.Lock()
			r.hw.fail = syscall.EIO
			r.hw.mu.Unlock()
			r.hw.wake()
		}, syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			for _, waits := range []bool{false, true} {
				r := newCompletionsRig(t, time.Millisecond, func() {})
				waited := make(chan error, 1)
				if waits {
					r.wait(t, 1)
					go func() { waited <- r.signal.Wait(soon(t)) }()
					sleep()
				}
				tc.end(r)
				if call := <-r.calls; !errors.Is(call.err, tc.want) || len(call.ids) > 0 {
					t.Errorf("last call = %+v, want %v", call, tc.want)
				}
				if waits {
					if err := <-waited; err != nil && !errors.Is(err, tc.want) {
						t.Errorf("Wait() = %v, want nil or %v", err, tc.want)
					}
				}
				_, _ = r.cq.Poll(make([]verbs.WC, 1)) // the polls fail, and the function is not called again
				sleep()
				if n := len(r.calls); n != 0 {
					t.Errorf("%d calls after the error, want none", n)
				}
			}
		})
	}
}
