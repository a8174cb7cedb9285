// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// noAsyncEvents is fakeRoute without asynchronous events, so that only failed calls detect a
// removal.
func noAsyncEvents() *route {
	rt := fakeRoute()
	rt.fake.Intercept = func(r *uverbs.Request) error {
		if r.Object == abi.UVERBS_OBJECT_ASYNC_EVENT {
			return syscall.EPROTONOSUPPORT
		}
		return nil
	}
	return rt
}

// expectRemoval fails the test unless an error arrives and is a DeviceRemovedError.
func expectRemoval(t *testing.T, what string, result <-chan error) {
	t.Helper()
	var removed *verbs.DeviceRemovedError
	select {
	case err := <-result:
		if !errors.As(err, &removed) {
			t.Errorf("%s = %v, want a DeviceRemovedError", what, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// TestArmDuringRemoval removes the device while one goroutine arms a CQ and another goroutine,
// which reads the completion channel, is about to do so.
func TestArmDuringRemoval(t *testing.T) {
	rt := noAsyncEvents()
	k := watch(rt)
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	waited, armed := make(chan error, 1), make(chan error, 1)
	k.once("REQ_NOTIFY_CQ", func() {
		go func() {
			_, err := e.cq.Wait(deadline(t), make([]verbs.WC, 1))
			waited <- err
		}()
		for stacks := make([]byte, 1<<20); !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "armAndPoll"); {
			runtime.Gosched()
		}
		rt.fake.Remove(rt.a.Device)
	})
	go func() { armed <- e.cq.Arm(false) }()
	expectRemoval(t, "Arm", armed)
	expectRemoval(t, "Wait", waited)
}

// TestRemovalDetectedTwice has a second call detect a removal before the first one has queried
// the kernel for the cause of its failure.
func TestRemovalDetectedTwice(t *testing.T) {
	rt := noAsyncEvents()
	k := watch(rt)
	dev := openDevice(t, rt.h, rt.a.Device)
	first, second := make(chan error, 1), make(chan error, 1)
	rt.fake.Remove(rt.a.Device)
	k.once("QUERY_GID_ENTRY", func() {
		_, err := dev.AllocPD()
		second <- err
	})
	_, err := dev.AllocPD()
	first <- err
	expectRemoval(t, "the first AllocPD", first)
	expectRemoval(t, "the second AllocPD", second)
}
