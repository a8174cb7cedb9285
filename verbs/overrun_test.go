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

// overrun has a device say that a CQ has overrun.
func overrun(t *testing.T, rt *route, cq *verbs.CQ) {
	t.Helper()
	hca := rt.h.Kernel.(*inprocess.Kernel).Device(cq.Device().Name())
	dv, err := mlx5dv.FromCQ(cq)
	if err != nil {
		t.Fatal(err)
	}
	if !hca.FailCQ(dv.Num()) {
		t.Fatal("the device does not know the CQ")
	}
}

// waitFor has n goroutines wait on a CQ, and returns when they sleep, most likely.
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

// TestOverrunWakes has a CQ overrun while goroutines wait on it, one of whom may read
// the channel for all, or a waiter of another CQ may, who is to go on waiting.
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
						t.Errorf("Wait: %v", err)
					}
				case <-deadline(t).Done():
					t.Fatal("nobody wakes a waiter")
				}
			}
			if _, err := cq.Wait(deadline(t), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrOverrun) {
				t.Errorf("Wait afterwards: %v", err)
			}
			select {
			case err := <-others:
				t.Errorf("the waiter of another CQ: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-others; !errors.Is(err, net.ErrClosed) {
				t.Errorf("the waiter of another CQ: %v", err)
			}
		})
	}
}

// TestOverrunOfAnArmedCQ: who serves many CQs by their channel is handed the one that
// has overrun.
func TestOverrunOfAnArmedCQ(t *testing.T) {
	rt := mlx5Route(t)
	dev := openDevice(t, rt.h, rt.a.Device)
	ch := createCompChannel(t, dev)
	cq := createCQ(t, dev, verbs.CQConfig{Channel: ch})
	if err := cq.Arm(false); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { overrun(t, rt, cq) })
	if got, err := ch.Next(deadline(t)); got != cq || err != nil {
		t.Errorf("Next: %p, %v, want %p", got, err, cq)
	}
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 0 || !errors.Is(err, verbs.ErrOverrun) {
		t.Errorf("Poll: %d, %v", n, err)
	}
}
