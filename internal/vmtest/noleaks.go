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
		return nil, fmt.Errorf("RDMAVM_HOSTS is not set (run this with rdmavm)")
	}
	return hosts, nil
}

// settleTime bounds the time until closed objects disappear. Goroutines may still end, and the kernel may
// free objects later. For iWARP the kernel takes 10 seconds to abandon an unanswered connection attempt.
func settleTime() time.Duration {
	if IWARP() {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// ownTime is the time after which objects that the driver created for itself are ignored. They stay, so
// that waiting longer has no effect.
const ownTime = 2 * time.Second

// NoLeaks fails the test if more is open at its end than now. It counts objects of the library, descriptors,
// goroutines, and the kernel's objects of each RDMA device. The check runs after all clean-ups that are
// registered later.
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

// more lists the counts that have grown. With notOwn it leaves out objects that the driver created for
// itself.
func more(before, now map[string]int, notOwn bool) []string {
	var out []string
	for name, n := range now {
		if n > before[name] && !(notOwn && madeLater(name, before[name], n)) {
			out = append(out, fmt.Sprintf("%s = %d, want at most %d", name, n, before[name]))
		}
	}
	sort.Strings(out)
	return out
}

// later has the counts after a driver created an object for itself.
var later = map[string]int{}

// madeLater reports whether the kernel created the additional object for itself permanently. Since
// Linux 6.11 mlx5_ib creates a CQ for each device at its first use.
func madeLater(name string, before, now int) bool {
	if Driver() != "mlx5" || now != before+1 || !strings.HasSuffix(name, " cq") {
		return false
	}
	if later[name] == 0 {
		later[name] = now
	}
	return later[name] == now
}
