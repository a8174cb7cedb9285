// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tracediff

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// run has one QP send to itself what wrs says of its memory and of that of the peer,
// and returns the trace.
func run(t *testing.T, before int, wrs func(here, there *verbs.MR) []verbs.SendWR) string {
	t.Helper()
	var mu sync.Mutex
	var trace strings.Builder
	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t), Trace: func(r connectx.Record) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&trace, "%12.6f %v\n", 1.5, r)
	}}, "mlx5_0")
	host := &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}
	dev, err := host.Open("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	var mrs [2]*verbs.MR
	for i := range before + 2 { // other keys and addresses in each run
		mr, err := pd.Alloc(8192, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		defer mr.Close()
		mrs[i%2] = mr
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	defer qp.Close()
	gids, err := dev.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: verbs.RemoteWrite | verbs.RemoteRead}, verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess},
		{verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: qp.Num(), MaxDestRdAtomic: 1,
			AH: verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: gids[0].GID}}},
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer},
		{verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}, verbs.QPAttrState | verbs.QPAttrTimeout |
			verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic},
	} {
		if err := qp.Modify(&step.attr, step.mask); err != nil {
			t.Fatal(err)
		}
	}
	list := wrs(mrs[0], mrs[1])
	if n, err := qp.PostSend(list); n != len(list) || err != nil {
		t.Fatalf("PostSend: %d, %v", n, err)
	}
	wcs := make([]verbs.WC, len(list))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n, err := cq.Poll(wcs)
		if err != nil || time.Now().After(end) {
			t.Fatalf("no completion: %v", err)
		}
		if n > 0 {
			if err := wcs[0].Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return trace.String()
}

// TestRequests runs a program twice, with other keys and addresses, and then others
// that differ from it in one thing each.
func TestRequests(t *testing.T) {
	program := func(change func(wrs []verbs.SendWR)) func(here, there *verbs.MR) []verbs.SendWR {
		return func(here, there *verbs.MR) []verbs.SendWR {
			wrs := []verbs.SendWR{
				{Opcode: verbs.OpWrite, SGList: []verbs.SGE{here.Slice(0, 100), here.Slice(200, 50)}, RemoteAddr: there.Addr(), RKey: there.RKey()},
				{Opcode: verbs.OpRead, SGList: []verbs.SGE{here.Slice(300, 8)}, RemoteAddr: there.Addr() + 50, RKey: there.RKey()},
				{Opcode: verbs.OpWrite, InlineData: []byte("inline"), RemoteAddr: there.Addr() + 64, RKey: there.RKey(), Flags: verbs.SendSignaled},
			}
			if change != nil {
				change(wrs)
			}
			return wrs
		}
	}
	requests := func(before int, change func(wrs []verbs.SendWR)) []string {
		t.Helper()
		got, err := Requests(strings.NewReader(run(t, before, program(change))), "RC")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := requests(0, nil)
	want := []string{
		"QP 0: RC WRITE fence 0 completion 0 solicited 0 remote key 0+0 100 bytes of key 1+0 50 bytes of key 1+200",
		"QP 0: RC READ fence 0 completion 0 solicited 0 remote key 0+50 8 bytes of key 1+300",
		"QP 0: RC WRITE fence 0 completion 2 solicited 0 remote key 0+64 inline 696e6c696e65",
	}
	if d := Differences(first, want); d != "" {
		t.Error(d)
	}
	if d := Differences(first, requests(6, nil)); d != "" {
		t.Errorf("the same program differs:\n%s", d)
	}
	for name, change := range map[string]func(wrs []verbs.SendWR){
		"length":    func(wrs []verbs.SendWR) { wrs[0].SGList[1].Length++ },
		"address":   func(wrs []verbs.SendWR) { wrs[1].RemoteAddr++ },
		"data":      func(wrs []verbs.SendWR) { wrs[2].InlineData = []byte("outline") },
		"flag":      func(wrs []verbs.SendWR) { wrs[2].Flags |= verbs.SendFence },
		"operation": func(wrs []verbs.SendWR) { wrs[1].Opcode = verbs.OpWrite },
	} {
		if d := Differences(first, requests(0, change)); strings.Count(d, "\n") != 1 {
			t.Errorf("another %s: %q", name, d)
		}
	}
	const empty = "x request %#x of RC QP 0x1: 0000000a000001010000000800000000\n"
	again := fmt.Sprintf(empty+empty+empty+empty, 0, 1, 0, 1) + "x request 0x2 of RC QP 0x2: 00000000000002010000000800000000\n"
	if got, err := Requests(strings.NewReader(again)); err != nil || len(got) != 2 {
		t.Errorf("two requests, each sent twice, and a NOP are %v, %v", got, err)
	}
	if got, err := Requests(strings.NewReader("x request 0x0 of RC QP 0x1: 00\n")); err == nil {
		t.Errorf("a request of one byte is %v", got)
	}
}

// TestHalves parts requests of four QPs.
func TestHalves(t *testing.T) {
	a, b, err := Halves([]string{"QP 0: x", "QP 0: y", "QP 1: z", "QP 2: x", "QP 2: y", "QP 3: w"})
	if err != nil || Differences(a, []string{"QP 0: x", "QP 0: y", "QP 1: z"}) != "" || Differences(a, b) != "request 2: QP 1: z | QP 1: w\n" {
		t.Errorf("%v, %v, %v", a, b, err)
	}
	for _, all := range [][]string{nil, {"QP 0: x", "QP 2: y"}} {
		if _, _, err := Halves(all); err == nil {
			t.Errorf("halves of %v", all)
		}
	}
}
