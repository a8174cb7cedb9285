// SPDX-License-Identifier: Apache-2.0

// Package vmtest has helpers for tests that need RDMA devices. These tests run in the project's micro-VM,
// which sets RDMAVM=1 and names its devices in RDMAVM_HOSTS. Elsewhere they are skipped. In the VM a missing
// device is a failure.
package vmtest

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strings"
	"testing"
	"time"

	"purerdma/internal/leak"
)

// Host is one end of the VM's network. It has an RDMA device and its interface.
type Host struct {
	Device    string // such as "rxe0"
	Interface string // such as "eth8"
	IPv4      netip.Addr
	IPv6      netip.Addr
}

// Inside reports whether the test runs in the VM.
func Inside() bool { return os.Getenv("RDMAVM") == "1" }

// Notice begins the message of a test that Need skips.
const Notice = "needs RDMA devices: "

// Need skips the test outside the VM.
func Need(tb testing.TB) {
	tb.Helper()
	if !Inside() {
		tb.Skip(Notice + "run with the micro-VM (RDMAVM is not set)")
	}
}

// Hosts calls Need and returns the devices of the VM. It fails the test if the VM has fewer than n.
func Hosts(tb testing.TB, n int) []Host {
	tb.Helper()
	Need(tb)
	hosts, err := parse(os.Getenv("RDMAVM_HOSTS"))
	if err != nil {
		tb.Fatalf("RDMAVM_HOSTS: %v", err)
	}
	if len(hosts) < n {
		tb.Fatalf("RDMAVM_HOSTS names %d hosts, the test needs %d", len(hosts), n)
	}
	return hosts
}

// parse reads "rxe0,eth8,10.8.0.1,fd00:8::1 rxe1,eth9,10.8.1.2,fd00:9::2".
func parse(s string) ([]Host, error) {
	var hosts []Host
	for _, field := range strings.Fields(s) {
		part := strings.Split(field, ",")
		if len(part) != 4 {
			return nil, fmt.Errorf("%q has %d parts, want 4", field, len(part))
		}
		h := Host{Device: part[0], Interface: part[1]}
		var err error
		if h.IPv4, err = netip.ParseAddr(part[2]); err != nil {
			return nil, err
		}
		if h.IPv6, err = netip.ParseAddr(part[3]); err != nil {
			return nil, err
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// Main runs the tests of a package. It fails if they leave an object of the library, a file descriptor or a
// goroutine open. Use it as
//
//	func TestMain(m *testing.M) { vmtest.Main(m) }
func Main(m *testing.M) {
	flag.Parse()
	if !given("test.bench") { // benchmarks must not measure the tracer
		leak.Enable()
	}
	// The runtime poller opens its own descriptors at its first use.
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
	before := files()
	code := m.Run()
	if given("test.fuzz") {
		os.Exit(code) // fuzzing leaves a goroutine that waits for signals
	}
	for _, problem := range left(before) {
		fmt.Fprintln(os.Stderr, "LEAK:", problem)
		code = max(code, 1)
	}
	os.Exit(code)
}

// given reports whether a flag has a value.
func given(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}

// left describes the objects that are still open. It waits up to 5 seconds for goroutines and descriptors to
// disappear.
func left(before map[string]int) []string {
	var problems []string
	deadline := time.Now().Add(5 * time.Second)
	for {
		problems = leak.Report()
		for name, n := range files() {
			if n > before[name] {
				problems = append(problems, fmt.Sprintf("%d more open descriptors of %s", n-before[name], name))
			}
		}
		if n := runtime.NumGoroutine(); n > 1 {
			problems = append(problems, fmt.Sprintf("%d goroutines:\n%s", n-1, stacks()))
		}
		if len(problems) == 0 || time.Now().After(deadline) {
			sort.Strings(problems)
			return problems
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func stacks() string {
	var b strings.Builder
	pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

// files counts the open descriptors by their file. The result is empty without /proc.
func files() map[string]int {
	count := make(map[string]int)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return count
	}
	for _, e := range entries {
		// The directory itself is already closed.
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			count[kind(name)]++
		}
	}
	return count
}

// kind removes the number of a pipe or socket, which differs each time.
func kind(name string) string {
	if before, _, ok := strings.Cut(name, ":["); ok {
		return before
	}
	return name
}
