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
		t.Fatal(err)
	}
	want := []Host{
		{"rxe0", "eth8", netip.MustParseAddr("10.8.0.1"), netip.MustParseAddr("fd00:8::1")},
		{"rxe1", "eth9", netip.MustParseAddr("10.8.1.2"), netip.MustParseAddr("fd00:9::2")},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"rxe0", "rxe0,eth8,10.8.0,::1", "rxe0,eth8,10.8.0.1,x"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("parse(%q) did not fail", bad)
		}
	}
}

func TestFilesSeesALeak(t *testing.T) {
	before := files()
	if len(before) == 0 {
		t.Skip("no /proc")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, n := range files() {
		if n > before[name] && strings.Contains(name, os.DevNull) {
			return
		}
	}
	t.Errorf("an open %s is not among %v", os.DevNull, files())
}
