// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// counting is a kernel that counts its calls.
type counting struct {
	uverbs.Kernel
	calls atomic.Int64
	then  func() // if not nil, called after each call
}

func (k *counting) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return &countingDevice{t, k}, err
}

type countingDevice struct {
	uverbs.Transport
	k *counting
}

func (d *countingDevice) Ioctl(r *uverbs.Request) error {
	defer d.k.count()
	return d.Transport.Ioctl(r)
}

func (d *countingDevice) Write(cmd []byte) error {
	defer d.k.count()
	return d.Transport.Write(cmd)
}

func (k *counting) count() {
	k.calls.Add(1)
	if k.then != nil {
		k.then()
	}
}

// TestSystemCalls counts the system calls of the data path. There is one for a list of sends of
// any length, one to arm a CQ for a wait that sleeps, and none for receives and completions.
func TestSystemCalls(t *testing.T) {
	rt := fakeRoute()
	k := &counting{Kernel: uverbstest.New("rxe0", "rxe1")}
	rt.h = &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}
	l, r := rt.pair(t, verbs.QPCap{})
	l.cq.SetSpin(0)
	r.cq.SetSpin(0)
	const n = 50
	recvs, sends := make([]verbs.RecvWR, n), make([]verbs.SendWR, n)
	for i := range n {
		recvs[i].SGList = []verbs.SGE{r.buf.Slice(0, 8)}
		sends[i] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
	}
	wcs := make([]verbs.WC, n)
	poll := func(e *end) {
		if n, err := e.cq.Poll(wcs); n != len(wcs) || err != nil {
			t.Fatalf("CQ.Poll = %d, %v, want %d, nil", n, err, len(wcs))
		}
	}
	var b verbs.Batch
	b.Reset(l.qp)
	for _, step := range []struct {
		what string
		want int64
		do   func()
	}{
		{"post receives", 0, func() { r.recv(t, recvs...) }},
		{"post a list of sends", 1, func() { l.send(t, sends...) }},
		{"poll", 0, func() { poll(l); poll(r) }},
		{"post receives again", 0, func() { r.recv(t, recvs...) }},
		{"post a batch", 1, func() {
			for range n {
				b.SendInline(1, []byte{1}, verbs.SendSignaled)
			}
			if err := b.Post(); err != nil {
				t.Fatalf("Batch.Post: %v", err)
			}
		}},
		{"wait for what is there", 0, func() {
			if n, err := l.cq.Wait(t.Context(), wcs); n != len(wcs) || err != nil {
				t.Fatalf("CQ.Wait = %d, %v, want %d, nil", n, err, len(wcs))
			}
			poll(r)
		}},
		{"discard a batch", 0, func() { b.SendInline(1, []byte{1}, 0); b.Discard() }},
		{"post an empty batch", 0, func() {
			if err := b.Post(); err != nil {
				t.Fatalf("Batch.Post: %v", err)
			}
		}},
		{"sleep", 1, func() {
			// The context ends once the CQ is armed, and not before, even on a slow machine.
			ctx, cancel := context.WithCancel(deadline(t))
			defer cancel()
			k.then = cancel
			if _, err := l.cq.Wait(ctx, wcs); !errors.Is(err, context.Canceled) {
				t.Fatalf("CQ.Wait: error = %v, want context.Canceled", err)
			}
			k.then = nil
		}},
		{"drain", 1, func() { modify(t, l.qp, verbs.QPAttr{State: verbs.QPSQD}, verbs.QPAttrState) }},
		{"go on, and have the kernel look", 2, func() { modify(t, l.qp, verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState) }},
		{"sleep with the CQ armed", 0, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 1e6)
			defer cancel()
			if _, err := l.cq.Wait(ctx, wcs); err == nil {
				t.Fatal("CQ.Wait returned a completion, want an error")
			}
		}},
	} {
		before := k.calls.Load()
		step.do()
		if got := k.calls.Load() - before; got != step.want {
			t.Errorf("%s: %d system calls, want %d", step.what, got, step.want)
		}
	}
}
