// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"purerdma/verbs"
)

func TestBatch(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{SendWR: 15, SendSGE: 3})
		for i := range uint64(5) {
			r.recv(t, verbs.RecvWR{ID: i, SGList: []verbs.SGE{r.buf.Slice(int(i)*100, 100)}})
		}
		copy(l.buf.Bytes(), "0123456789abcdef")
		copy(r.buf.Bytes()[4000:], "from the peer")
		remote := r.buf.Remote()
		inline := []byte("inline")
		var b verbs.Batch
		b.Reset(l.qp)
		b.Write(1, l.buf.Slice(0, 16), remote.Slice(1000, 16), 0)
		b.WriteInline(2, inline, remote.Slice(1016, 6), 0)
		b.WriteImm(3, 77, l.buf.Slice(0, 4), remote.Slice(1100, 4), 0)
		copy(inline, "######") // the batch has its own copy
		b.Add(&verbs.SendWR{ID: 4, Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 2), l.buf.Slice(10, 2)}})
		b.SendInline(5, []byte("small"), 0)
		b.SendInline(6, nil, 0)
		b.SendImm(7, 78, l.buf.Slice(4, 4), verbs.SendSolicited)
		b.Read(8, l.buf.Slice(2000, 13), remote.Slice(4000, 13), verbs.SendFence)
		b.FetchAdd(9, l.buf.Slice(2016, 8), remote.Slice(4096, 8), 5, 0)
		b.CompareSwap(10, l.buf.Slice(2024, 8), remote.Slice(4096, 8), 5, 9, verbs.SendSignaled)
		if err := b.Post(); err != nil {
			t.Fatalf("Batch.Post: %v", err)
		}
		if got := l.ok(t, 1); got[10].Opcode != verbs.WCCompareSwap {
			t.Errorf("completions = %+v, want COMPARE_SWAP for ID 10", got)
		}
		got := r.ok(t, 5)
		R, L := r.buf.Bytes(), l.buf.Bytes()
		if string(R[1000:1022]) != "0123456789abcdefinline" || string(R[1100:1104]) != "0123" || got[0].ImmData != 77 {
			t.Errorf("written bytes = %q, %q with completion %+v, want 0123456789abcdefinline, 0123 and immediate data 77", R[1000:1022], R[1100:1104], got[0])
		}
		if string(R[100:104]) != "01ab" || string(R[200:205]) != "small" || got[3].ByteLen != 0 || string(R[400:404]) != "4567" || got[4].ImmData != 78 {
			t.Errorf("sent bytes = %q, %q, %q with completion %+v, want 01ab, small, 4567 and an empty message", R[100:104], R[200:205], R[400:404], got[3])
		}
		if string(L[2000:2013]) != "from the peer" || L[2016] != 0 || L[2024] != 5 || R[4096] != 9 {
			t.Errorf("read bytes = %q, atomics returned %d and %d and stored %d, want \"from the peer\", 0, 5 and 9", L[2000:2013], L[2016], L[2024], R[4096])
		}

		// A batch that does not fit posts nothing, and can be reused.
		for range l.qp.Cap().SendWR + 1 {
			b.WriteInline(1, []byte{1}, remote.Slice(3000, 1), verbs.SendSignaled)
		}
		if err := b.Post(); !errors.Is(err, verbs.ErrFull) {
			t.Errorf("Post of too many = %v, want ErrFull", err)
		}
		for range l.qp.Cap().SendWR - 1 {
			b.WriteInline(1, []byte{2}, remote.Slice(3001, 1), 0)
		}
		b.WriteInline(2, []byte{2}, remote.Slice(3001, 1), verbs.SendSignaled)
		if err := b.Post(); err != nil {
			t.Errorf("Post of a batch that fits: %v", err)
		}
		if got := l.ok(t, 1); got[2].Status != verbs.WCSuccess || R[3000] != 0 || R[3001] != 2 {
			t.Errorf("completions = %+v, bytes = %v, want success and 0, 2", got, R[3000:3002])
		}

		// An error persists until Post or Discard.
		full := make([]verbs.SGE, l.qp.Cap().SendSGE+1)
		for name, tc := range map[string]struct {
			add  func()
			want error
		}{
			"too many elements": {func() { b.Add(&verbs.SendWR{Opcode: verbs.OpSend, SGList: full}) }, syscall.EINVAL},
			"long Write":        {func() { b.Write(1, l.buf.Slice(0, 2), remote.Slice(3001, 1), 0) }, verbs.ErrRemoteLength},
			"long WriteInline":  {func() { b.WriteInline(1, []byte{3, 3}, remote.Slice(3001, 1), 0) }, verbs.ErrRemoteLength},
			"long WriteImm":     {func() { b.WriteImm(1, 1, l.buf.Slice(0, 2), remote.Slice(3001, 1), 0) }, verbs.ErrRemoteLength},
			"long Read":         {func() { b.Read(1, l.buf.Slice(0, 2), remote.Slice(3001, 1), 0) }, verbs.ErrRemoteLength},
			"long FetchAdd":     {func() { b.FetchAdd(1, l.buf.Slice(0, 8), remote.Slice(3000, 7), 1, 0) }, verbs.ErrRemoteLength},
			"long CompareSwap":  {func() { b.CompareSwap(1, l.buf.Slice(0, 8), remote.Slice(3000, 7), 1, 1, 0) }, verbs.ErrRemoteLength},
		} {
			for _, first := range []bool{false, true} {
				if first {
					b.WriteInline(2, []byte{3}, remote.Slice(3001, 1), 0)
				}
				tc.add()
				b.WriteInline(2, []byte{3}, remote.Slice(3001, 1), 0)
				if err := b.Post(); !errors.Is(err, tc.want) {
					t.Errorf("Post after %s = %v, want %v", name, err, tc.want)
				}
			}
		}
		b.WriteInline(2, []byte{3}, remote.Slice(3001, 1), verbs.SendSignaled)
		b.Discard()
		if err := b.Post(); err != nil {
			t.Errorf("Post of an empty batch: %v", err)
		}
		l.send(t, verbs.SendWR{ID: 3, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: remote.Addr + 3002, RKey: remote.RKey, InlineData: []byte{4}})
		if l.ok(t, 1); R[3001] != 2 || R[3002] != 4 {
			t.Errorf("bytes of the peer after Discard = %v, want 2 and 4 at the end", R[3000:3003])
		}
		modify(t, l.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
		b.SendInline(1, nil, 0)
		if err := b.Post(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Post in RESET = %v, want EINVAL", err)
		}
	})
}

// TestNoAllocs counts the allocations of the data path.
func TestNoAllocs(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		recv := []verbs.RecvWR{{SGList: []verbs.SGE{r.buf.Slice(0, 64)}}}
		send := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 64)}}}
		inline := []verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: make([]byte, 32)}}
		write := verbs.SendWR{Opcode: verbs.OpWrite, SGList: send[0].SGList, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()}
		wcs := make([]verbs.WC, 2)
		ctx := t.Context()
		take := func(e *end) {
			for n := 0; n == 0; {
				var err error
				if n, err = e.cq.Wait(ctx, wcs); err != nil || wcs[0].Err() != nil {
					t.Fatalf("CQ.Wait = %v with completion %+v, want nil and success", err, wcs[0])
				}
			}
		}
		poll := func(e *end) {
			for n := 0; n == 0; {
				var err error
				if n, err = e.cq.Poll(wcs); err != nil || wcs[0].Err() != nil {
					t.Fatalf("CQ.Poll = %v with completion %+v, want nil and success", err, wcs[0])
				}
				runtime.Gosched() // lets a fake device in a goroutine run
			}
		}
		var b verbs.Batch
		b.Reset(l.qp)
		for name, f := range map[string]func(){
			"post and poll": func() {
				r.recv(t, recv...)
				l.send(t, send...)
				poll(r)
				poll(l)
			},
			"inline": func() {
				r.recv(t, recv...)
				l.send(t, inline...)
				poll(r)
				poll(l)
			},
			"batch": func() {
				b.Write(1, l.buf.Slice(0, 64), r.buf.Remote(), 0)
				b.Add(&write)
				b.WriteInline(3, inline[0].InlineData, r.buf.Remote(), verbs.SendSignaled)
				if err := b.Post(); err != nil {
					t.Fatalf("Batch.Post: %v", err)
				}
				poll(l)
			},
		} {
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%s: %v allocations, want 0", name, n)
			}
		}
		l.cq.SetSpin(0)
		r.cq.SetSpin(0)
		if n := testing.AllocsPerRun(200, func() {
			r.recv(t, recv...)
			l.send(t, send...)
			take(r)
			take(l)
		}); n != 0 {
			t.Errorf("post and wait: %v allocations, want 0", n)
		}
	})
}

// TestBatchFirstError checks that a full queue does not hide an earlier error of a request, and
// that the batch may be reused after Post.
func TestBatchFirstError(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{SendWR: 4})
		remote := r.buf.Remote()
		var b verbs.Batch
		b.Reset(l.qp)
		for name, wrong := range map[string]func(){
			"Write": func() { b.Write(1, l.buf.Slice(0, 64), remote.Slice(0, 8), 0) },
			"Read":  func() { b.Read(1, l.buf.Slice(0, 64), remote.Slice(0, 8), 0) },
		} {
			wrong()
			for range l.qp.Cap().SendWR + 1 {
				b.Write(2, l.buf.Slice(0, 8), remote, 0)
				b.Read(3, l.buf.Slice(0, 8), remote, 0)
				b.Add(&verbs.SendWR{ID: 4, Opcode: verbs.OpSend})
			}
			if err := b.Post(); !errors.Is(err, verbs.ErrRemoteLength) {
				t.Errorf("%s: Post() = %v, want %v", name, err, verbs.ErrRemoteLength)
			}
			b.Write(5, l.buf.Slice(0, 8), remote, verbs.SendSignaled)
			if err := b.Post(); err != nil {
				t.Fatalf("Batch.Post: %v", err)
			}
			l.ok(t, 1)
		}
	})
}
