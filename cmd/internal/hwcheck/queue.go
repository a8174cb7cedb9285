// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"purerdma/verbs"
)

// queueChecks use full queues.
var queueChecks = []Check{
	{ID: "stream", Title: "full queues, refilled while another goroutine polls", do: checkStream},
	{ID: "storm", Load: true, Title: "full queues while goroutines are preempted, and the collector runs", do: checkStorm},
	{ID: "short-data", Title: "short receives and READs, which may be in completions", do: checkShortData},
	{ID: "wrap", Title: "counters of queues past 2^16", do: checkWrap},
	{ID: "wrap-recorded", Title: "counters in completions past 2^16, recorded", needs: needsConnectX, do: checkRecordedWrap},
	{ID: "cq-resize", Load: true, Title: "CQ resized under load", needs: needsResize, do: checkResize},
	{ID: "unsignaled", Title: "requests without completions", do: checkUnsignaled},
	{ID: "srq", Title: "shared receives of several QPs", needs: needsSRQ, do: checkSRQ},
	{ID: "srq-limit", Title: "limit event of a shared receive queue", needs: needsSRQ, do: checkSRQLimit},
}

func checkStream(t *trial) {
	s := Stream{Count: 4000, Min: 1, Span: 4000, Elements: 1, Depth: 64}
	t.link(s.config()).stream(s, nil)
}

// checkStorm moves data with more threads than processors, which signals and the collector interrupt all the time.
func checkStorm(t *trial) {
	s := Stream{Count: t.reads(3000), Min: 0, Span: 300, Elements: 2, Depth: 64, Reads: true}
	w := t.load(manyRequests)
	messages := s.Count
	s.more = func() bool {
		if !w.more(2 * messages) { // each has a READ
			return false
		}
		messages += s.Count
		return true
	}
	defer moreThreads()()
	collections := 0
	t.link(s.config()).stream(s, func(ctx context.Context) error {
		collections = collect(ctx)
		return nil
	})
	t.noteLoad(w, 2*messages, "requests")
	t.note("%d collections", collections)
}

// moreThreads lets the runtime use more threads than processors until the returned function is called.
func moreThreads() (restore func()) {
	old := runtime.GOMAXPROCS(4 * runtime.NumCPU())
	return func() { runtime.GOMAXPROCS(old) }
}

// collect runs the collector until ctx ends. It preempts all goroutines by signals. It returns the number of collections.
func collect(ctx context.Context) (n int) {
	for ; ctx.Err() == nil; n++ {
		runtime.GC()
	}
	return n
}

// reads returns the number of messages of a stream with READs. A READ of siw takes up to 40 ms.
func (t *trial) reads(n int) int {
	if iwarp(t.dev) {
		return n / 10
	}
	return n
}

func checkShortData(t *trial) {
	for elements := 1; elements <= min(4, t.attr.MaxRecvSGE); elements++ {
		for _, noScatter := range []bool{false, true} {
			s := Stream{Count: t.reads(600), Min: 0, Span: 66, Elements: elements, Depth: 64, Reads: true}
			cfg := s.config()
			cfg.NoScatter = noScatter
			t.link(cfg).stream(s, nil)
		}
	}
}

func checkWrap(t *trial) {
	s := Stream{Count: 1<<16 + 1000, Min: 1, Span: 16, Elements: 1, Depth: 64}
	t.link(s.config()).stream(s, nil)
}

// checkRecordedWrap compares the counters in completions. The recording has the last 4096 operations, which are about 1000 messages.
func checkRecordedWrap(t *trial) {
	t.record()
	s := Stream{Count: 1<<16 + 500, Min: 1, Span: 16, Elements: 1, Depth: 64}
	t.link(s.config()).stream(s, nil)
	n, err := t.recording().wrapped()
	t.must("counters in completions", err)
	want := 1 // requests
	if t.peer.local != nil {
		want = 2 // and receives
	}
	t.note("%d queues passed 2^16 in the recording", n)
	if n != want {
		t.fail("%d queues passed 2^16 in the recording, want %d", n, want)
	}
}

func needsResize(t *trial) string {
	cq, err := t.dev.CreateCQ(verbs.CQConfig{Entries: 64})
	t.must("create a CQ", err)
	t.later(cq.Close)
	if err := cq.Resize(128); errors.Is(err, errors.ErrUnsupported) {
		return fmt.Sprintf("the device has no resizable CQs: %v", err)
	}
	return ""
}

func checkResize(t *trial) {
	s := Stream{Count: 3000, Min: 1, Span: 100, Elements: 1, Depth: 64, Reads: true}
	w := t.load(manyResizes)
	var resized atomic.Int64
	s.more = func() bool { return w.more(int(resized.Load())) }
	l := t.link(s.config())
	l.stream(s, func(ctx context.Context) error {
		for i := 0; ctx.Err() == nil; i++ {
			entries := []int{128, 1024, 256, 4000, 64}[i%5]
			for _, cq := range []*verbs.CQ{l.sendCQ, l.recvCQ} {
				// A device may refuse to shrink a CQ that has completions.
				if err := cq.Resize(entries); err == nil {
					resized.Add(1)
				} else if entries > 64 {
					return fmt.Errorf("resize to %d entries: %w", entries, err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
		return nil
	})
	if resized.Load() == 0 {
		t.fail("no CQ was resized during the stream")
	}
	t.noteLoad(w, int(resized.Load()), "resizes")
}

func checkUnsignaled(t *trial) {
	l := t.link(Config{Cap: verbs.QPCap{SendWR: 64}})
	for round := range 200 {
		wrs := make([]verbs.SendWR, 1+round%60)
		for i := range wrs {
			wrs[i] = l.write(piece{i, 1}, i)
			wrs[i].ID = uint64(i)
		}
		last := len(wrs) - 1
		wrs[last].Flags = verbs.SendSignaled
		l.post(wrs...)
		if wc := l.sends(1)[0]; wc.Err() != nil || wc.ID != uint64(last) {
			t.fail("completion %+v of %d requests, want ID %d", wc, len(wrs), last)
		}
	}
	var wcs [1]verbs.WC
	if n, err := l.sendCQ.Poll(wcs[:]); n != 0 || err != nil {
		t.fail("poll after the last request: %d completions, %v: %+v", n, err, wcs[0])
	}
}

func needsSRQ(t *trial) string {
	if t.attr.MaxSRQ == 0 {
		return "the device has no shared receive queues"
	}
	return ""
}

func checkSRQ(t *trial) {
	const links, depth, size = 5, 60, 100
	l := t.link(Config{SRQ: depth, CQEntries: 256})
	all := []*link{l}
	for range links - 1 {
		all = append(all, l.another())
	}
	for round := range 4 {
		for i := range depth {
			l.farRecv(uint64(i), piece{i * size, size})
		}
		for i := range depth {
			fillPattern(l.mr.Bytes()[i*size:][:size], round*depth+i)
			all[i%links].post(signaled(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{i * size, size}})}))
		}
		l.succeeded("SEND", l.sends(depth))
		wcs := l.farReceived(depth)
		got := l.load(0, depth*size)
		seen := map[string]bool{}
		for _, wc := range wcs {
			if wc.ByteLen != size || wc.ID >= depth {
				t.fail("receive %+v, want %d bytes", wc, size)
			}
			seen[string(got[wc.ID*size:][:size])] = true
		}
		for i := range depth {
			if !seen[string(pattern(round*depth+i, size))] {
				t.fail("message %d of round %d is not in the memory of the receives", i, round)
			}
		}
	}
}

func checkSRQLimit(t *trial) {
	l := t.link(Config{SRQ: 16})
	for i := range 16 {
		t.must("post a receive", l.recv(uint64(i), []piece{{0, 8}}))
	}
	events, err := l.dev.AsyncEvents()
	t.must("open asynchronous events", err)
	t.later(events.Close)
	t.must("set the limit", l.srq.Modify(verbs.SRQAttr{Limit: 10}, verbs.SRQAttrLimit))
	for range 8 {
		l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, 8})
	}
	l.received(8)
	t.wantEvent(events, "8 of 16 receives with limit 10", func(e verbs.AsyncEvent) bool { return e.Type == verbs.AsyncSRQLimitReached && e.SRQ == l.srq })
}

// wantEvent waits for an asynchronous event.
func (t *trial) wantEvent(events *verbs.AsyncEvents, after string, wanted func(verbs.AsyncEvent) bool) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	for {
		event, err := events.Next(ctx)
		if err != nil {
			t.fail("no event after %s: %v", after, err)
		}
		if wanted(event) {
			return
		}
		t.note("other event: %v", event)
	}
}
