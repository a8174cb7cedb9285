// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// overrun has a device report that a CQ has overrun.
func overrun(t *testing.T, rt *route, cq *verbs.CQ) {
	t.Helper()
	hca := rt.h.Kernel.(*inprocess.Kernel).Device(cq.Device().Name())
	dv, err := mlx5dv.FromCQ(cq)
	if err != nil {
		t.Fatalf("mlx5dv.FromCQ: %v", err)
	}
	if !hca.FailCQ(dv.Num()) {
		t.Fatalf("FailCQ(%#x) = false, want true", dv.Num())
	}
}

// waitFor has n goroutines wait on a CQ. It returns when they most likely sleep.
func waitFor(cq *verbs.CQ, n int) <-chan error {
	cq.SetSpin(0)
	ends := make(chan error, n)
	for range n {
		go func() {
			_, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
			ends <- err
		}()
	}
	time.Sleep(10 * time.Millisecond)
	return ends
}

// TestOverrunWakes has a CQ overrun while goroutines wait on it. Either one of them reads the
// channel for all, or a waiter of another CQ does so. The waiter of the other CQ must continue
// to wait.
func TestOverrunWakes(t *testing.T) {
	for name, otherFirst := range map[string]bool{"reader": false, "another reads": true} {
		t.Run(name, func(t *testing.T) {
			rt := mlx5Route(t)
			dev := openDevice(t, rt.h, rt.a.Device)
			ch := createCompChannel(t, dev)
			cq, other := createCQ(t, dev, verbs.CQConfig{Channel: ch}), createCQ(t, dev, verbs.CQConfig{Channel: ch})
			var ends, others <-chan error
			if otherFirst {
				others = waitFor(other, 1)
				ends = waitFor(cq, 3)
			} else {
				ends = waitFor(cq, 3)
				others = waitFor(other, 1)
			}
			overrun(t, rt, cq)
			for range 3 {
				select {
				case err := <-ends:
					if !errors.Is(err, verbs.ErrOverrun) {
						t.Errorf("Wait = %v, want ErrOverrun", err)
					}
				case <-deadline(t).Done():
					t.Fatal("a waiter was not woken after the overrun")
				}
			}
			if _, err := cq.Wait(deadline(t), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrOverrun) {
				t.Errorf("later Wait = %v, want ErrOverrun", err)
			}
			select {
			case err := <-others:
				t.Errorf("Wait on another CQ returned %v, want no return", err)
			case <-time.After(5 * time.Millisecond):
			}
			if err := other.Close(); err != nil {
				t.Fatalf("CQ.Close: %v", err)
			}
			if err := <-others; !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait on the other CQ after Close = %v, want net.ErrClosed", err)
			}
		})
	}
}

// TestOverrunOfArmedCQ checks that Next returns a CQ that has overrun, for programs that serve
// many CQs with one channel.
func TestOverrunOfArmedCQ(t *testing.T) {
	rt := mlx5Route(t)
	dev := openDevice(t, rt.h, rt.a.Device)
	ch := createCompChannel(t, dev)
	cq := createCQ(t, dev, verbs.CQConfig{Channel: ch})
	if err := cq.Arm(false); err != nil {
		t.Fatalf("CQ.Arm(false): %v", err)
	}
	time.AfterFunc(5*time.Millisecond, func() { overrun(t, rt, cq) })
	if got, err := ch.Next(deadline(t)); got != cq || err != nil {
		t.Errorf("Next = %p, %v, want %p, nil", got, err, cq)
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 0 || !errors.Is(err, verbs.ErrOverrun) {
		t.Errorf("CQ.Poll = %d, %v, want 0, verbs.ErrOverrun", n, err)
	}
}
