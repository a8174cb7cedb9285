// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"purerdma/verbs"
)

// foreign is a context that is not of a type of package context. Watching it takes a goroutine.
type foreign struct{ context.Context }

func (f foreign) Value(any) any { return nil }

// sender sends one message for each token, after the receiving goroutine has gone to sleep.
func sender(t *testing.T, l *end) (tell chan<- struct{}, stop func()) {
	tokens, done := make(chan struct{}), make(chan struct{})
	send := []verbs.SendWR{{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 8)}}}
	wcs := make([]verbs.WC, 16)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			if _, ok := <-tokens; !ok {
				return
			}
			time.Sleep(200 * time.Microsecond)
			send[0].Flags = 0
			if i%8 == 0 {
				send[0].Flags = verbs.SendSignaled
				if _, err := l.cq.Poll(wcs); err != nil {
					t.Errorf("CQ.Poll: %v", err)
				}
			}
			if _, err := l.qp.PostSend(send); err != nil {
				t.Errorf("QP.PostSend: %v", err)
			}
		}
	}()
	return tokens, func() { close(tokens); <-done }
}

// TestSleepNoAllocs waits for completions that arrive while the waiter sleeps, with contexts
// that may end.
func TestSleepNoAllocs(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		r.cq.SetSpin(0)
		tell, stop := sender(t, l)
		defer stop()
		recv := []verbs.RecvWR{{SGList: []verbs.SGE{r.buf.Slice(0, 8)}}}
		wcs := make([]verbs.WC, 1)
		plain, cancel := context.WithCancel(t.Context())
		defer cancel()
		timeout, cancel2 := context.WithTimeout(t.Context(), time.Hour)
		defer cancel2()
		for name, ctx := range map[string]context.Context{
			"cancel": plain, "timeout": timeout, "value": context.WithValue(plain, t, t), "foreign": foreign{plain}, "background": context.Background(),
		} {
			n := testing.AllocsPerRun(200, func() {
				if _, err := r.qp.PostRecv(recv); err != nil {
					t.Fatalf("QP.PostRecv: %v", err)
				}
				tell <- struct{}{}
				if _, err := r.cq.Wait(ctx, wcs); err != nil || wcs[0].Err() != nil {
					t.Fatalf("CQ.Wait = %v with completion %+v, want nil and success", err, wcs[0])
				}
			})
			if n != 0 {
				t.Errorf("%s: %v allocations for each message, want 0", name, n)
			}
		}
	})
}

// TestNextNoAllocs waits for the events of a channel in the same way.
func TestNextNoAllocs(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		tell, stop := sender(t, l)
		defer stop()
		recv := []verbs.RecvWR{{SGList: []verbs.SGE{r.buf.Slice(0, 8)}}}
		wcs := make([]verbs.WC, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if n := testing.AllocsPerRun(200, func() {
			if _, err := r.qp.PostRecv(recv); err != nil {
				t.Fatalf("QP.PostRecv: %v", err)
			}
			if err := r.cq.Arm(false); err != nil {
				t.Fatalf("CQ.Arm(false): %v", err)
			}
			tell <- struct{}{}
			if cq, err := r.cq.Channel().Next(ctx); err != nil || cq != r.cq {
				t.Fatalf("CompChannel.Next = %+v, %v, want %+v, nil", cq, err, r.cq)
			}
			if n, err := r.cq.Poll(wcs); n != 1 || err != nil {
				t.Fatalf("CQ.Poll = %d, %v, want 1, nil", n, err)
			}
		}); n != 0 {
			t.Errorf("%v allocations for each event, want 0", n)
		}
	})
}

// TestContextOfManyWaits reuses a context for several waits. Its end must end the current wait,
// and must not affect later waits with another context.
func TestContextOfManyWaits(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		r.cq.SetSpin(0)
		tell, stop := sender(t, l)
		defer stop()
		wcs := make([]verbs.WC, 1)
		take := func(ctx context.Context) {
			t.Helper()
			r.recv(t, verbs.RecvWR{SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
			tell <- struct{}{}
			if n, err := r.cq.Wait(ctx, wcs); n != 1 || err != nil || wcs[0].Err() != nil {
				t.Fatalf("CQ.Wait = %d, %v with completion %+v, want 1, nil and success", n, err, wcs[0])
			}
		}
		for range 50 {
			ctx, cancel := context.WithCancel(deadline(t))
			take(ctx)
			take(ctx)
			time.AfterFunc(100*time.Microsecond, cancel)
			if _, err := r.cq.Wait(ctx, wcs); !errors.Is(err, context.Canceled) {
				t.Fatalf("third Wait with a context that ends = %v, want context.Canceled", err)
			}
			// A context that no goroutine waits with ends while another wait sleeps.
			ctx, cancel = context.WithCancel(deadline(t))
			take(ctx)
			r.recv(t, verbs.RecvWR{SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
			time.AfterFunc(50*time.Microsecond, cancel)
			tell <- struct{}{}
			if n, err := r.cq.Wait(context.Background(), wcs); n != 1 || err != nil || wcs[0].Err() != nil {
				t.Fatalf("CQ.Wait = %d, %v with completion %+v, want 1, nil and success", n, err, wcs[0])
			}
		}
	})
}

// TestContextEndsAllWaits checks that the end of one context ends all waits on all CQs of a
// channel.
func TestContextEndsAllWaits(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.a.Device)
		ch := createCompChannel(t, dev)
		var cqs []*verbs.CQ
		for range 3 {
			cq := createCQ(t, dev, verbs.CQConfig{Channel: ch})
			cqs = append(cqs, cq)
		}
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			for i := range 12 {
				go func() {
					_, err := cqs[i%len(cqs)].Wait(ctx, make([]verbs.WC, 1))
					ended <- err
				}()
			}
			time.AfterFunc(100*time.Microsecond, cancel)
			late := time.After(30 * time.Second)
			for i := range 12 {
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("Wait = %v, want context.Canceled", err)
					}
				case <-late:
					t.Fatalf("%d of 12 waits did not end with their context", 12-i)
				}
			}
		}
	})
}

// TestNoGoroutineLeak checks that the goroutine that watches a context ends with the CQ, even
// if the context does not end.
func TestNoGoroutineLeak(t *testing.T) {
	rt := fakeRoute()
	dev := openDevice(t, rt.h, rt.a.Device)
	before := runtime.NumGoroutine()
	live, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 20 {
		cq, err := dev.CreateCQ(verbs.CQConfig{})
		if err != nil {
			t.Fatalf("Device.CreateCQ: %v", err)
		}
		gone := make(chan error)
		go func() {
			_, err := cq.Wait(foreign{live}, make([]verbs.WC, 1))
			gone <- err
		}()
		time.Sleep(time.Millisecond)
		if err := cq.Close(); err != nil {
			t.Fatalf("CQ.Close: %v", err)
		}
		<-gone
	}
	for try := 0; runtime.NumGoroutine() > before; try++ {
		if try == 200 {
			t.Fatalf("%d goroutines, want %d as before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
