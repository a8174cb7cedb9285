// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMSystemCalls is TestSystemCalls by the kernel's own count: of write(2), which is
// the doorbell of software devices. Cards have none. It counts the calls of one thread,
// because the runtime wakes its poller by write(2), at any time and from any thread.
func TestVMSystemCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	doorbells := 1
	if vmtest.Driver() == "mlx5" {
		doorbells = 0
	}
	var b verbs.Batch
	b.Reset(l.qp)
	wcs := make([]verbs.WC, 1)
	ctx := deadline(t) // setting a timer may have the runtime write
	for _, n := range []int{1, 2, 50} {
		wrs, recvs := make([]verbs.SendWR, n), make([]verbs.RecvWR, n)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
			recvs[i] = verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{r.buf.Slice(0, 8)}}
		}
		wrs[n-1].Flags = verbs.SendSignaled
		poll := func(e *end, n int) {
			for n > 0 && ctx.Err() == nil {
				k, err := e.cq.Poll(wcs)
				if n -= k; err != nil || k > 0 && wcs[0].Err() != nil {
					t.Fatal(err, wcs)
				}
			}
			if n > 0 {
				t.Fatalf("%d are missing: %v", n, context.Cause(ctx))
			}
		}
		for _, step := range []struct {
			what string
			want int
			do   func()
		}{
			{"post receives", 0, func() { r.recv(t, recvs...) }},
			{"post a list of sends", doorbells, func() { l.send(t, wrs...) }},
			{"poll", 0, func() { poll(l, 1); poll(r, n) }},
			{"post receives again", 0, func() { r.recv(t, recvs...) }},
			{"post a batch", doorbells, func() {
				for i := range n - 1 {
					b.SendInline(uint64(i), []byte{1}, 0)
				}
				b.SendInline(uint64(n-1), []byte{1}, verbs.SendSignaled)
				if err := b.Post(); err != nil {
					t.Fatal(err)
				}
			}},
			{"poll again", 0, func() { poll(l, 1); poll(r, n) }},
		} {
			before := writes(t)
			step.do()
			if got := writes(t) - before; got != step.want {
				t.Errorf("%s, %d: %d system calls, want %d", step.what, n, got, step.want)
			}
		}
	}
}

// writes returns how many write(2) the calling thread has made.
func writes(t *testing.T) int {
	t.Helper()
	s, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		t.Fatal(err)
	}
	var rchar, wchar, r, w int
	if _, err := fmt.Sscanf(string(s), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &rchar, &wchar, &r, &w); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return w
}
