// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"purerdma/internal/leak"
)

// Ends returns the devices of the VM, for programs that are not tests.
func Ends() ([]Host, error) {
	hosts, err := parse(os.Getenv("RDMAVM_HOSTS"))
	if err != nil {
		return nil, fmt.Errorf("RDMAVM_HOSTS: %w", err)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("RDMAVM_HOSTS is not set: run this with rdmavm")
	}
	return hosts, nil
}

// settleTime is how long what a test has closed may take to go: goroutines that
// end, objects that the kernel frees later. Giving a connection attempt of siw up
// that nobody has answered takes the kernel 10 seconds.
func settleTime() time.Duration {
	if Driver() == "siw" {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// ownTime is after how long what a driver has made for itself is left out: as it stays,
// to wait for it any longer is in vain.
const ownTime = 2 * time.Second

// NoLeaks fails the test if at its end, after all of its other clean-ups that
// were registered later, more is open than there is now: objects of the library,
// descriptors, goroutines, and what the kernel counts per RDMA device.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := openNow(t)
	t.Cleanup(func() {
		closed := time.Now()
		for {
			waited := time.Since(closed)
			problems := more(before, openNow(t), waited > ownTime)
			if len(problems) == 0 {
				return
			}
			if waited > settleTime() {
				t.Errorf("left open:\n%s\nthe library's own:\n%s\ngoroutines:\n%s",
					strings.Join(problems, "\n"), strings.Join(leak.Report(), "\n"), stacks())
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func openNow(t testing.TB) map[string]int {
	t.Helper()
	n := files()
	n["goroutines"] = runtime.NumGoroutine()
	n["objects of the library"] = len(leak.Report())
	if err := addResources(n); err != nil {
		t.Fatalf("count the kernel's RDMA objects: %v", err)
	}
	return n
}

// more says what there is more of now, without what a driver keeps for itself if that
// is not awaited.
func more(before, now map[string]int, notOwn bool) []string {
	var out []string
	for name, n := range now {
		if n > before[name] && !(notOwn && madeLater(name, before[name], n)) {
			out = append(out, fmt.Sprintf("%s: %d, before it was %d", name, n, before[name]))
		}
	}
	sort.Strings(out)
	return out
}

// later is how many there were when a driver had made one for itself.
var later = map[string]int{}

// madeLater reports whether the kernel has made what there is more of, for itself and
// for good: mlx5_ib, since Linux 6.11, a CQ for each device when that is first used.
func madeLater(name string, before, now int) bool {
	if Driver() != "mlx5" || now != before+1 || !strings.HasSuffix(name, " cq") {
		return false
	}
	if later[name] == 0 {
		later[name] = now
	}
	return later[name] == now
}
