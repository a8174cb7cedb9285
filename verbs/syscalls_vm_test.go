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

// TestVMSystemCalls is TestSystemCalls with the kernel's own count of write(2). This is the
// doorbell of software devices. Cards do not use it. The test counts the calls of one thread,
// because the runtime may wake its poller with write(2) at any time and from any thread.
func TestVMSystemCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	doorbells := 1
	if vmtest.Modeled() {
		doorbells = 0
	}
	var b verbs.Batch
	b.Reset(l.qp)
	wcs := make([]verbs.WC, 1)
	ctx := deadline(t) // created first, because setting a timer may make the runtime call write(2)
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
					t.Fatalf("CQ.Poll = %v with completions %+v, want nil and success", err, wcs)
				}
			}
			if n > 0 {
				t.Fatalf("%d completions are missing: %v", n, context.Cause(ctx))
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
					t.Fatalf("Batch.Post: %v", err)
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

// writes returns the number of write(2) calls of the calling thread.
func writes(t *testing.T) int {
	t.Helper()
	s, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	var rchar, wchar, r, w int
	if _, err := fmt.Sscanf(string(s), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &rchar, &wchar, &r, &w); err != nil {
		t.Fatalf("/proc/thread-self/io: %v in %q", err, s)
	}
	return w
}
