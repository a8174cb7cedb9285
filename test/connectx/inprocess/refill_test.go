// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// refillTime returns how long TestRefillWhilePolling runs. It needs no kernel: in the
// micro-VM a short run is enough.
func refillTime() time.Duration {
	if longtest.Enabled() && !vmtest.Inside() {
		return 10 * time.Minute
	}
	return 10 * time.Second
}

// TestRefillWhilePolling keeps queues full in one goroutine, with ErrFull as back-pressure, while another
// goroutine polls. The data of receives and READs is short enough to be in the completions. Each operation has its
// own memory, so that the test detects data in the memory of another operation.
func TestRefillWhilePolling(t *testing.T) {
	const depth, slots, stride = 64, 1 << 12, 64
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{SendWR: depth, RecvWR: depth, SendSGE: 2, RecvSGE: 2, Inline: 64}, retries{14, 7, 7, 1})
	for i := range slots { // READ i returns i+1 in both halves
		binary.LittleEndian.PutUint64(a.mr.Bytes()[i*stride:], uint64(i+1))
		binary.LittleEndian.PutUint64(a.mr.Bytes()[i*stride+8:], uint64(i+1))
	}
	elements := func(e *end, n uint64) []verbs.SGE {
		at := int(n%slots) * stride
		return []verbs.SGE{e.mr.Slice(at, 8), e.mr.Slice(at+32, 8)}
	}
	const read = 1 << 63 // set in the IDs of READs
	var stop atomic.Bool
	var received, sent atomic.Uint64 // receives posted, messages sent
	var wg sync.WaitGroup
	// try counts n up after a post, unless the queue is full.
	try := func(n *uint64, _ int, err error) bool {
		if err == nil {
			*n++
		} else if !errors.Is(err, verbs.ErrFull) {
			t.Errorf("post = %v, want nil or %v", err, verbs.ErrFull)
			stop.Store(true)
		}
		return err == nil
	}
	wg.Go(func() { // keeps the queues of b full
		var receives, reads uint64
		for !stop.Load() {
			k, err := b.qp.PostRecv([]verbs.RecvWR{{ID: receives, SGList: elements(b, receives)}})
			if try(&receives, k, err) {
				received.Store(receives)
			}
			sg := elements(b, reads)
			for i := range sg {
				sg[i].Addr += 16 // next to the memory of the receives
			}
			k, err = b.qp.PostSend([]verbs.SendWR{{ID: read | reads, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, SGList: sg,
				RemoteAddr: a.mr.Slice(int(reads%slots)*stride, 16).Addr, RKey: a.mr.RKey()}})
			try(&reads, k, err)
		}
	})
	wg.Go(func() { // sends message i, which has i+1 in both halves
		wcs := make([]verbs.WC, depth)
		for n := uint64(0); !stop.Load(); {
			if n < received.Load() {
				var m [16]byte
				binary.LittleEndian.PutUint64(m[:], n+1)
				binary.LittleEndian.PutUint64(m[8:], n+1)
				k, err := a.qp.PostSend([]verbs.SendWR{{ID: n, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: m[:]}})
				if try(&n, k, err) {
					sent.Store(n)
				}
			}
			if _, err := a.cq.Poll(wcs); err != nil {
				t.Errorf("a.cq.Poll: %v", err)
				stop.Store(true)
			}
			runtime.Gosched()
		}
	})
	var receives, reads, wrong uint64
	wcs := make([]verbs.WC, 32)
	check := func(wc *verbs.WC) {
		id, count, want, add := wc.ID&^read, &receives, wc.ID+1, 0
		if wc.ID&read != 0 {
			count, want, add = &reads, id%slots+1, 16
		}
		sg := int(id%slots)*stride + add
		first, second := binary.LittleEndian.Uint64(b.mr.Bytes()[sg:]), binary.LittleEndian.Uint64(b.mr.Bytes()[sg+32:])
		if wc.Status != verbs.WCSuccess || id != *count || first != want || second != want {
			if wrong++; wrong < 5 {
				t.Errorf("completion %#x = %v with %d and %d, want completion %d with %d", wc.ID, wc.Status, first, second, *count, want)
			}
		}
		*count++
	}
	for start, run := time.Now(), refillTime(); time.Since(start) < run && !stop.Load(); {
		k, err := b.cq.Poll(wcs)
		if err != nil {
			t.Errorf("b.cq.Poll: %v", err)
			break
		}
		for i := range wcs[:k] {
			check(&wcs[i])
		}
		if k == 0 {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
	if receives == 0 || reads == 0 || sent.Load() < receives {
		t.Errorf("completed receives = %d and READs = %d, with %d sent messages", receives, reads, sent.Load())
	}
	t.Logf("%d receives and %d READs, %d of them wrong", receives, reads, wrong)
}
