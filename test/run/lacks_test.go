// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestSkipped(t *testing.T) {
	defer func(old []lack) { lacks = old }(lacks)
	lacks = []lack{
		{driver: "siw", pkg: "cm", tests: "TestA.* TestB/one_two"},
		{driver: "siw", kernel: "7", pkg: "cm", tests: "TestC"},
		{driver: "rxe", pkg: "cm", tests: "TestD"},
		{driver: "siw", pkg: "verbs", tests: "TestE"},
	}
	for _, c := range []struct{ driver, kernel, pkg, want string }{
		{"siw", "6.1", "cm", "^TestA.*$|^TestB$/^one_two$"},
		{"siw", "7", "cm", "^TestA.*$|^TestB$/^one_two$|^TestC$"},
		{"rxe", "7", "cm", "^TestD$"},
		{"rxe", "7", "verbs", ""},
	} {
		if got := skipped(c.driver, c.kernel, c.pkg); got != c.want {
			t.Errorf("%v: got %q", c, got)
		}
	}
	for _, c := range []struct{ flags, want string }{
		{"-kernel 7 -driver siw", "siw"}, {"--driver=siw", "siw"}, {"-kernel 7", "rxe"}, {"-driver", "rxe"},
	} {
		if got := flagValue(strings.Fields(c.flags), "driver", "rxe"); got != c.want {
			t.Errorf("%q: got %q", c.flags, got)
		}
	}
}

// TestLacks holds the table against itself: each row says what and why, and the
// name of its package.
func TestLacks(t *testing.T) {
	for i, l := range lacks {
		if l.driver == "" || l.why == "" || l.seen == "" || l.tests == "" {
			t.Errorf("row %d is not complete: %+v", i, l)
		}
		if _, err := os.Stat("../../" + l.pkg); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
		if _, err := regexp.Compile(skipped(l.driver, l.kernel, l.pkg)); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
	}
}

func TestCheckLacks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	have, err := testsOf(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	defer func(old []lack) { lacks = old }(lacks)
	lacks = []lack{{pkg: "test/run", tests: "TestCheck.* TestLines/sub"}}
	if err := checkLacks(have, "test/run"); err != nil {
		t.Error(err)
	}
	lacks = []lack{{pkg: "test/run", tests: "TestNoSuch"}}
	if err := checkLacks(have, "test/run"); err == nil || !strings.Contains(err.Error(), "TestNoSuch") {
		t.Errorf("a test that does not exist: %v", err)
	}
}
