// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := parse("rxe0,eth8,10.8.0.1,fd00:8::1 rxe1,eth9,10.8.1.2,fd00:9::2")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	want := []Host{
		{"rxe0", "eth8", netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("fd00:8::1")},
		{"rxe1", "eth9", netip.MustParseAddr("10.8.1.2"), netip.MustParseAddr("fd00:9::2")},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("parse() differs (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"rxe0", "rxe0,eth8,10.8.0,::1", "rxe0,eth8,10.8.0.1,x"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("parse(%q) = nil error, want an error", bad)
		}
	}
}

func TestFilesCountsALeak(t *testing.T) {
	before := files()
	if len(before) == 0 {
		t.Skip("no /proc")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatalf("os.Open(os.DevNull): %v", err)
	}
	defer f.Close()
	for name, n := range files() {
		if n > before[name] && strings.Contains(name, os.DevNull) {
			return
		}
	}
	t.Errorf("files() = %v, want one more %s", files(), os.DevNull)
}

func TestDriver(t *testing.T) {
	for value, want := range map[string]struct {
		driver      string
		p7, modeled bool
	}{"rxe": {"rxe", false, false}, "erdma": {"erdma", false, true}, "bnxt_re": {"bnxt_re", false, true}, "bnxt_re-p7": {"bnxt_re", true, true}} {
		t.Setenv("RDMAVM_DRIVER", value)
		if Driver() != want.driver || P7() != want.p7 || Modeled() != want.modeled {
			t.Errorf("Driver(), P7(), Modeled() with %s = %s, %v, %v, want %+v", value, Driver(), P7(), Modeled(), want)
		}
	}
}

// TestMore checks that one additional CQ of each mlx5 device is ignored, because the driver owns it.
func TestMore(t *testing.T) {
	t.Setenv("RDMAVM_DRIVER", "mlx5")
	before, now := map[string]int{"kernel mlx5_0 cq": 3, "files": 5}, map[string]int{"kernel mlx5_0 cq": 4, "files": 5}
	for i, tc := range []struct {
		over bool
		want int
	}{{false, 1}, {true, 0}, {true, 0}} { // two nested checks both ignore the CQ
		if got := more(before, now, tc.over); len(got) != tc.want {
			t.Errorf("more() of check %d = %v, want %d differences", i, got, tc.want)
		}
	}
	now["kernel mlx5_0 cq"], before["kernel mlx5_0 cq"] = 5, 4
	now["kernel mlx5_1 cq"], now["files"] = 2, 6
	if got := more(before, now, true); len(got) != 3 {
		t.Errorf("more() with another CQ, two new CQs and a file = %v, want 3 differences", got)
	}
	t.Setenv("RDMAVM_DRIVER", "rxe")
	if got := more(map[string]int{}, map[string]int{"kernel rxe0 cq": 1}, true); len(got) != 1 {
		t.Errorf("more() on rxe = %v, want 1 difference", got)
	}
}
