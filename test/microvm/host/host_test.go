// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/guest"
	"purerdma/test/microvm/wire"
)

// TestMain allows this program to run as /init, like rdmavm.
func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}

func TestScanLog(t *testing.T) {
	for line, bad := range map[string]bool{
		"[ 1.0] BUG: kernel NULL pointer dereference, address: 0":                                    true,
		"[ 1.0] WARNING: CPU: 1 PID: 9 at drivers/infiniband/sw/rxe/x.c:1":                           true,
		"[ 1.0] INFO: task x:1 blocked for more than 120 seconds.":                                   true,
		"[ 1.0] general protection fault, probably for non-canonical address":                        true,
		"[ 1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!":                                   true,
		"[ 1.0] rcu: INFO: rcu_sched self-detected stall on CPU; detected stalls":                    true,
		"[ 1.0] Kernel panic - not syncing: x":                                                       true,
		"[ 1.0] traps: qperf[12] general protection fault ip:7f sp:7f error:0 in librdmacm.so[7f]":   false,
		"[ 1.0] qperf[9]: segfault at 0 ip 00007f sp 00007f error 4 in libibverbs.so":                false,
		"[ 1.0] rxe0: qp#21 make_send_cqe: non-flush error status = 4":                               false,
		"[ 1.0] hrtimer: interrupt took 34000000 ns":                                                 false,
		"[ 1.0] AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.": false,
		"[ 1.0] x: DEBUG: nothing, OopsX, and again a BUG: here":                                     true,
		"[ 1.0] x: DEBUG: nothing, OopsX":                                                            false,
		"[ 1.0] x: OopsOops":                                                                         false,
		"[ 1.0] x: OopsOops, then Oops":                                                              true,
		"[ 1.0] ACPI: Unable to load table":                                                          false,
	} {
		got, _ := scanLog([]byte("before\r\n" + line + "\r\nafter\r\n"))
		if (got != nil) != bad {
			t.Errorf("scanLog(%s) = %q, want a part %t", line, got, bad)
		}
		if bad && !(bytes.Contains(got, []byte("before")) && bytes.Contains(got, []byte("after"))) {
			t.Errorf("scanLog(%s) = %q, want the lines around it", line, got)
		}
	}
}

func TestScanLogKnownReports(t *testing.T) {
	const (
		first  = "[ 7.6] WARNING: drivers/infiniband/sw/rxe/rxe_task.c:249 at rxe_sched_task+0x9c/0xb0 [rdma_rxe], CPU#1: kworker/u9:1/32\n"
		other  = "[ 7.6] WARNING: drivers/infiniband/sw/rxe/rxe_task.c:249 at rxe_requester+0x9c/0xb0 [rdma_rxe], CPU#1: kworker/u9:1/32\n"
		trace  = "[ 7.6] Call Trace:\n[ 7.6]  <TASK>\n"
		xmit   = "[ 7.6]  rxe_xmit_packet+0x16c/0x330 [rdma_rxe]\n"
		last   = "[ 7.7] ---[ end trace 0000000000000000 ]---\n"
		known  = first + trace + xmit + last
		before = "[ 7.5] ------------[ cut here ]------------\n"
	)
	for _, tt := range []struct {
		name, log string
		bad       bool
		excused   int
	}{
		{"one", before + known + "[ 7.8] x\n", false, 1},
		{"two", known + before + known, false, 2},
		{"another function", other + trace + xmit + last, true, 0},
		{"another caller", first + trace + "[ 7.6]  rxe_modify_qp+0x1/0x2\n" + last, true, 0},
		{"no end", first + trace + xmit, true, 0},
		{"the caller behind the end", first + trace + last + xmit + last, true, 0},
		{"trouble within", first + trace + xmit + "[ 7.7] BUG: unable to handle page fault\n" + last, true, 0},
		{"trouble behind", known + "[ 7.9] refcount_t: addition on 0; use-after-free.\n", true, 1},
	} {
		bad, excused := scanLog([]byte(tt.log))
		if (bad != nil) != tt.bad || len(excused) != tt.excused {
			t.Errorf("%s: scanLog = %q, %q, want a part %t and %d known reports", tt.name, bad, excused, tt.bad, tt.excused)
		}
	}
}

func TestTail(t *testing.T) {
	if got := tail([]byte("1\r\n2\n3\n\n"), 2); string(got) != "2\n3" {
		t.Errorf("tail = %q, want the last 2 lines", got)
	}
}

func TestPrefixWriter(t *testing.T) {
	var b bytes.Buffer
	w := &prefixWriter{w: &b, prefix: []byte("[0] "), mu: &sync.Mutex{}}
	for _, s := range []string{"one\ntw", "o\n", "\nrest"} {
		if n, err := io.WriteString(w, s); n != len(s) || err != nil {
			t.Fatalf("WriteString(%q) = %d, %v", s, n, err)
		}
	}
	w.flush()
	w.flush()
	if want := "[0] one\n[0] two\n[0] \n[0] rest\n"; b.String() != want {
		t.Errorf("prefixed output = %q, want %q", b.String(), want)
	}
}

// TestInput checks that at most one window of input is in flight.
func TestInput(t *testing.T) {
	mine, its, err := socketPair()
	if err != nil {
		t.Fatalf("socketPair: %v", err)
	}
	defer mine.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	const total = 3 * wire.StdinWindow
	go func() {
		w.Write(bytes.Repeat([]byte("x"), total))
		w.Close()
	}()
	in := newInput(r, wire.NewConn(mine))
	guest := wire.NewConn(its)
	sum, unacked := 0, 0
	for {
		k, d, err := guest.Receive()
		if err != nil {
			t.Fatalf("guest.Receive: %v", err)
		}
		if k == wire.StdinEOF {
			break
		}
		sum += len(d)
		if unacked += len(d); unacked > wire.StdinWindow {
			t.Fatalf("%d bytes are in flight, more than the window", unacked)
		}
		if unacked > wire.StdinWindow/2 {
			in.ack([]byte{0, byte(unacked >> 16), byte(unacked >> 8), byte(unacked)})
			unacked = 0
		}
	}
	if sum != total {
		t.Errorf("the guest got %d bytes, want %d", sum, total)
	}
}

func TestCheck(t *testing.T) {
	good := func() *Options {
		return &Options{Arch: arch.AMD64, Hosts: 1, Root: wire.RootOverlay, Memory: 512, CPUs: 2}
	}
	if err := good().check(); err != nil {
		t.Errorf("good().check: %v", err)
	}
	for name, spoil := range map[string]func(*Options){
		"hosts":       func(o *Options) { o.Hosts = 3 },
		"vms":         func(o *Options) { o.VMs = true },
		"no release":  func(o *Options) { o.Release, o.Packages = "../x", []string{"y"} },
		"no packages": func(o *Options) { o.Release = "sid" },
		"trace":       func(o *Options) { o.Trace, o.Driver = "x", "rxe" },
		"root":        func(o *Options) { o.Root = "x" },
		"memory":      func(o *Options) { o.Memory = 1 },
		"cpus":        func(o *Options) { o.CPUs = 0 },
		"numa":        func(o *Options) { o.Nodes = 3 },
		"few nodes":   func(o *Options) { o.Nodes = -1 },
		"list":        func(o *Options) { o.Root = wire.RootNone; o.Commands = make([]wire.Command, 2) },
	} {
		o := good()
		spoil(o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), "-") {
			t.Errorf("check of %s = %v, want an error with the flag", name, err)
		}
	}
}

func TestSetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		v := &vm{end: func(err error) { ended <- err }}
		v.setLimit(time.Hour, "an hour")
		v.setLimit(time.Millisecond, "nothing")
		if err := <-ended; !strings.Contains(err.Error(), "nothing within 1ms") {
			t.Errorf("setLimit ended with %v, want the shorter limit", err)
		}
		v.setLimit(10*time.Millisecond, "late")
		v.setLimit(0, "")
		select {
		case err := <-ended:
			t.Error("the end of the VM after its limit was removed:", err)
		case <-time.After(2 * time.Hour):
		}
	})
}
