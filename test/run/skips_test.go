// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestSkipped(t *testing.T) {
	defer func(old []knownSkip) { knownSkips = old }(knownSkips)
	knownSkips = []knownSkip{
		{driver: "siw", pkg: "cm", tests: "TestA.* TestB/one_two"},
		{driver: "siw", kernel: "7", pkg: "cm", tests: "TestC"},
		{driver: "rxe", pkg: "cm", tests: "TestD"},
		{driver: "siw", pkg: "verbs", tests: "TestE"},
		{driver: "bnxt_re", pkg: "verbs", tests: "TestF"},
		{driver: "bnxt_re-p7", pkg: "verbs", tests: "TestG"},
	}
	for _, c := range []struct{ driver, kernel, pkg, want string }{
		{"siw", "6.1", "cm", "^TestA.*$|^TestB$/^one_two$"},
		{"siw", "7", "cm", "^TestA.*$|^TestB$/^one_two$|^TestC$"},
		{"rxe", "7", "cm", "^TestD$"},
		{"rxe", "7", "verbs", ""},
		{"bnxt_re", "7", "verbs", "^TestF$"},
		{"bnxt_re-p7", "7", "verbs", "^TestF$|^TestG$"},
	} {
		if got := skipped(c.driver, c.kernel, c.pkg); got != c.want {
			t.Errorf("skipped(%q, %q, %q) = %q, want %q", c.driver, c.kernel, c.pkg, got, c.want)
		}
	}
	for _, c := range []struct{ flags, want string }{
		{"-kernel 7 -driver siw", "siw"}, {"--driver=siw", "siw"}, {"-kernel 7", "rxe"}, {"-driver", "rxe"},
	} {
		if got := flagValue(strings.Fields(c.flags), "driver", "rxe"); got != c.want {
			t.Errorf("flagValue(%q) = %q, want %q", c.flags, got, c.want)
		}
	}
}

// TestKnownSkips checks that each row of the table is complete and that its package exists.
func TestKnownSkips(t *testing.T) {
	for i, l := range knownSkips {
		if l.driver == "" || l.why == "" || l.seen == "" || l.tests == "" {
			t.Errorf("row %d is incomplete: %+v", i, l)
		}
		if _, err := os.Stat("../../" + l.pkg); err != nil {
			t.Errorf("row %d: package: %v", i, err)
		}
		if _, err := regexp.Compile(skipped(l.driver, l.kernel, l.pkg)); err != nil {
			t.Errorf("row %d: pattern: %v", i, err)
		}
	}
}

func TestCheckSkips(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	have, err := (&row{}).testsOf(t.Context(), self)
	if err != nil {
		t.Fatalf("row.testsOf: %v", err)
	}
	defer func(old []knownSkip) { knownSkips = old }(knownSkips)
	knownSkips = []knownSkip{{pkg: "test/run", tests: "TestCheck.* TestLines/sub"}}
	if err := checkSkips(have, "test/run"); err != nil {
		t.Errorf("checkSkips: %v", err)
	}
	knownSkips = []knownSkip{{pkg: "test/run", tests: "TestNoSuch"}}
	if err := checkSkips(have, "test/run"); err == nil || !strings.Contains(err.Error(), "TestNoSuch") {
		t.Errorf("checkSkips with a missing test = %v, want an error", err)
	}
}
