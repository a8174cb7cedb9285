// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tracediff

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
)

// run makes one QP send the requests of wrs to itself, and returns the trace. wrs gets its
// memory and the peer's memory.
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
		t.Fatalf("host.Open: %v", err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("dev.AllocPD: %v", err)
	}
	defer pd.Close()
	var mrs [2]*verbs.MR
	for i := range before + 2 { // use other keys and addresses in each run
		mr, err := pd.Alloc(8192, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		if err != nil {
			t.Fatalf("pd.Alloc: %v", err)
		}
		defer mr.Close()
		mrs[i%2] = mr
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	if err != nil {
		t.Fatalf("dev.CreateCQ: %v", err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("pd.CreateQP: %v", err)
	}
	defer qp.Close()
	gids, err := dev.GIDs()
	if err != nil {
		t.Fatalf("dev.GIDs: %v", err)
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		{verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: verbs.RemoteWrite | verbs.RemoteRead}, verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess},
		{verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: qp.Num(), MaxDestRdAtomic: 1,
			AH: verbs.AHAttr{Global: true, Port: 1, GRH: verbs.GlobalRoute{DGID: gids[0].GID}}},
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer},
		{verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 1}, verbs.QPAttrState | verbs.QPAttrTimeout |
			verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic},
	} {
		if err := qp.Modify(&step.attr, step.mask); err != nil {
			t.Fatalf("qp.Modify: %v", err)
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
				t.Fatalf("wcs[0].Err: %v", err)
			}
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return trace.String()
}

// TestRequests runs a program twice, with different keys and addresses. Then it runs other
// programs that differ in one aspect each.
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
		got, err := Seen(strings.NewReader(run(t, before, program(change))), "RC")
		if err != nil {
			t.Fatalf("Seen: %v", err)
		}
		return Select(got, "request")
	}
	first := requests(0, nil)
	want := []string{
		"QP 0: request RC WRITE fence 0 completion 0 solicited 0 remote key 0+0 100 bytes of key 1+0 50 bytes of key 1+200",
		"QP 0: request RC READ fence 0 completion 0 solicited 0 remote key 0+50 8 bytes of key 1+300",
		"QP 0: request RC WRITE fence 0 completion 2 solicited 0 remote key 0+64 inline 696e6c696e65",
	}
	if d := Differences(first, want); d != "" {
		t.Error(d)
	}
	if d := Differences(first, requests(6, nil)); d != "" {
		t.Errorf("an equal program differs:\n%s", d)
	}
	for name, change := range map[string]func(wrs []verbs.SendWR){
		"length":    func(wrs []verbs.SendWR) { wrs[0].SGList[1].Length++ },
		"address":   func(wrs []verbs.SendWR) { wrs[1].RemoteAddr++ },
		"data":      func(wrs []verbs.SendWR) { wrs[2].InlineData = []byte("outline") },
		"flag":      func(wrs []verbs.SendWR) { wrs[2].Flags |= verbs.SendFence },
		"operation": func(wrs []verbs.SendWR) { wrs[1].Opcode = verbs.OpWrite },
	} {
		if d := Differences(first, requests(0, change)); strings.Count(d, "\n") != 1 {
			t.Errorf("Differences with another %s = %q, want one", name, d)
		}
	}
	const empty = "x request %#x of RC QP 0x1: 0000000a000001010000000800000000\n"
	again := fmt.Sprintf(empty+empty+empty+empty, 0, 1, 0, 1) + "x request 0x2 of RC QP 0x2: 00000000000002010000000800000000\n"
	if got, err := Seen(strings.NewReader(again)); err != nil || len(got) != 2 {
		t.Errorf("Seen of two requests, each sent twice, and a NOP = %v, %v", got, err)
	}
	if got, err := Seen(strings.NewReader("x request 0x0 of RC QP 0x1: 00\n")); err == nil {
		t.Errorf("Seen of a request of one byte = %v, want an error", got)
	}
}

// command returns the line of a command that creates an object.
func command(name string, number uint32, fill func(in []byte)) string {
	in := make([]byte, 0x110)
	fill(in)
	return fmt.Sprintf("0.1 x command %s in 280 out 16: %08x00000000 of %x\n", name, number, bytes.TrimRight(in, "\x00"))
}

// made returns the lines of a CQ and a QP.
func made(cqn uint32, logCQ, logSQ uint64) string {
	return command("CREATE_CQ", cqn, func(in []byte) {
		c := prm.CQIn.Context.Of(in)
		prm.CQC.LogCQSize.Set(c, logCQ)
		prm.CQC.UARPage.Set(c, uint64(cqn)+4)
		prm.CQC.DBRAddr.Set(c, uint64(cqn)<<20)
	}) + command("CREATE_QP", 0x42, func(in []byte) {
		c := prm.QPIn.Context.Of(in)
		prm.QPC.LogSQSize.Set(c, logSQ)
		prm.QPC.SendCQN.Set(c, uint64(cqn))
		prm.QPC.RecvCQN.Set(c, uint64(cqn))
	})
}

// key11 returns the lines of a key that is created with one set of rights and gets others by a
// UMR.
func key11(length uint64) string {
	w := make([]byte, prm.UMRDataOffset)
	prm.Ctrl.Opcode.Set(w, prm.WQEUMR)
	prm.Ctrl.DS.Set(w, uint64(len(w)/16))
	prm.Ctrl.Imm.Set(w, 0x1100)
	prm.UMRCtrl.Mask.Set(w[16:], prm.MaskLength|prm.MaskLocalWrite|prm.MaskRemoteRead)
	c := w[prm.UMRDataOffset-prm.MkeyLen:]
	prm.MKC.Length.Set(c, length)
	prm.MKC.LocalWrite.Set(c, 1)
	prm.MKC.Atomic.Set(c, 1) // not in the mask
	return command("CREATE_MKEY", 0x11, func(in []byte) {
		c := prm.CreateMkeyIn.Context.Of(in)
		prm.MKC.LocalRead.Set(c, 1)
		prm.MKC.RemoteRead.Set(c, 1)
		prm.MKC.StartAddr.Set(c, 0xaa001000)
	}) + fmt.Sprintf("0.2 x request 0x0 of REG_UMR QP 0x7: %x\n", w)
}

// recorded is a part of a trace from a virtual machine. A QP of device x sends once by
// BlueFlame and once by a doorbell, and receives one message.
const recorded = `0.3 x doorbell page 0x9+0x20 1000000000000005 record 0000000010000000
0.4 x doorbell page 0x9+0x800 0000000a00004202 record 0000000000000001
0.4 x request 0x0 of RC QP 0x42: 0000000a00004202000000080000000080000006747261636564000000000000
0.4 x completion 0 of CQ 0x5: opcode 0x0 QP 0x42 WQE 0x0 6 bytes: 00000000000000000000000000000000000000000000000000000000000000000000007700000000000000000000000600000000000000010a00004200000000
0.4 x doorbell page 0x9+0x808 0000000800000000
0.4 x doorbell page 0x9+0x810 8000000674726163
0.4 x doorbell page 0x9+0x818 6564000000000000
0.5 x doorbell page 0x9+0x900 0000010a00004202 record 0000000100000002
0.5 x request 0x1 of RC QP 0x42: 0000010a000042020000000800000000000000080000115500000000aa001000
0.6 x receive 0x0 of QP 0x42 from QP 0x42: 000000400000115500000000aa00200000000000000001000000000000000000
0.6 x completion 1 of CQ 0x5: opcode 0x2 QP 0x42 WQE 0x0 8 bytes: 00000000000000000000000000000000000000000000000000000000000000000000007700000000000000000000000800000000000000010000004200000021
`

// TestRecorded covers all kinds of lines.
func TestRecorded(t *testing.T) {
	seen := func(made, old, now string) []string {
		t.Helper()
		changed := strings.Replace(recorded, old, now, 1)
		if old != "" && changed == recorded {
			t.Fatalf("recorded lacks %q", old)
		}
		all, err := Seen(strings.NewReader(made+changed), "RC")
		if err != nil {
			t.Fatalf("Seen: %v", err)
		}
		return all
	}
	all := seen(key11(64)+made(5, 7, 5), "", "")
	for kind, want := range map[string]string{
		"request":    "RC SEND fence 0 completion 2 solicited 0 inline 747261636564",
		"doorbell":   "of request 0x0, 32 bytes, buffer 0, record 0x1",
		"completion": "0x0 of 0x0, 6 bytes, format 0, solicited 0",
		"receive":    "of 64 bytes of key 0+4096 end",
		"received":   "0x2 of 0x0, 8 bytes, format 0, solicited 0",
		"made":       "LogSQSize 5",
		"uses":       "LocalRead 1, LocalWrite 1, Length 64",
		"sends-to":   "LogCQSize 7",
		"arms":       "for any completion",
	} {
		if lines := Select(all, kind); len(lines) == 0 || lines[0] != "QP 0: "+kind+" "+want {
			t.Errorf("Select(%s) = %q, want %q", kind, lines, want)
		}
	}
	if lines := Select(all, "doorbell"); len(lines) != 2 || lines[1] != "QP 0: doorbell of request 0x1, 8 bytes, buffer 1, record 0x2" {
		t.Errorf("Select(doorbell) = %q, want two lines", lines)
	}
	for what, c := range map[string][2]string{
		"part of a copy":      {"0.4 x doorbell page 0x9+0x818 6564000000000000\n", ""},
		"record":              {"record 0000000100000002", "record 0000000100000003"},
		"register":            {"0x9+0x900", "0x9+0xa00"},
		"length of a receive": {"000000400000115500000000aa002000", "000000410000115500000000aa002000"},
		"completion's length": {"0000000600000000", "0000000700000000"},
		"way to arm":          {"+0x20 10000000", "+0x20 11000000"},
	} {
		if d := Differences(all, seen(key11(64)+made(5, 7, 5), c[0], c[1])); strings.Count(d, "\n") != 1 {
			t.Errorf("Differences with another %s = %q, want one", what, d)
		}
	}
	for what, m := range map[string]string{"size of a CQ": made(5, 8, 5), "size of a QP": made(5, 7, 6)} {
		if d := Differences(all, seen(key11(64)+m, "", "")); strings.Count(d, "\n") != 1 {
			t.Errorf("Differences with another %s = %q, want one", what, d)
		}
	}
	if d := Differences(all, seen(key11(65)+made(5, 7, 5), "", "")); strings.Count(d, "\n") != 1 {
		t.Errorf("Differences with another length of memory = %q, want one", d)
	}
	// Numbers and addresses are arbitrary.
	other := strings.NewReplacer("QP 0x42", "QP 0x77", "000042", "000077", "00001155", "00002266", "aa00", "bb00", "page 0x9", "page 0xb", "16: 00000011", "16: 00000022", "00001100", "00002200",
		"CQ 0x5", "CQ 0x6", "00000005 record", "00000006 record").Replace(key11(64) + made(6, 7, 5) + recorded)
	other = strings.Replace(other, "16: 00000042", "16: 00000077", 1)
	if again, err := Seen(strings.NewReader(other), "RC"); err != nil || Differences(all, again) != "" {
		t.Errorf("Seen with other numbers = %v, differences:\n%s", err, Differences(all, again))
	}
}

// TestExcused checks that the position of a queue in its pages is no difference, but its length
// is.
func TestExcused(t *testing.T) {
	qp := "made PMState 3, LogRQSize 9, LogSQSize 2"
	if got := excuse(qp + ", LogPageSize 4, PageOffset 28"); got != qp {
		t.Errorf("excuse = %q, want %q", got, qp)
	}
	if got, want := excuse("sends-to PageOffset 3, LogCQSize 9, LogPageSize 1"), "sends-to LogCQSize 9"; got != want {
		t.Errorf("excuse = %q, want %q", got, want)
	}
	for _, e := range Excused {
		if e.Why == "" {
			t.Errorf("%v has no reason", e.Pattern)
		}
	}
}

// TestDifferences compares kind with kind, with lists of different lengths.
func TestDifferences(t *testing.T) {
	a := []string{"QP 0: request x", "QP 0: request y", "QP 0: doorbell z", "QP 1: request x"}
	b := []string{"QP 0: request x", "QP 0: doorbell z", "QP 1: request x", "QP 1: received w"}
	if got, want := Differences(a, b), "QP 0: request y | nothing\nnothing | QP 1: received w\n"; got != want {
		t.Errorf("Differences = %q, want %q", got, want)
	}
	if got := Differences(a, a); got != "" {
		t.Errorf("Differences of equal lists = %q, want none", got)
	}
}

// TestHalves splits requests of four QPs.
func TestHalves(t *testing.T) {
	a, b, err := Halves([]string{"QP 0: request x", "QP 0: request y", "QP 1: request z", "QP 2: request x", "QP 2: request y", "QP 3: request w"})
	if err != nil || Differences(a, []string{"QP 0: request x", "QP 0: request y", "QP 1: request z"}) != "" || Differences(a, b) != "QP 1: request z | QP 1: request w\n" {
		t.Errorf("Halves = %v, %v, %v", a, b, err)
	}
	for _, all := range [][]string{nil, {"QP 0: x", "QP 2: y"}} {
		if _, _, err := Halves(all); err == nil {
			t.Errorf("Halves(%v) = nil error", all)
		}
	}
}
