// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	const out = `=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/one
    b_test.go:1: no device
    --- SKIP: TestB/one (0.00s)
--- PASS: TestB (0.00s)
--- FAIL: TestC (0.00s)
    --- FAIL: TestC/x (0.00s)
        --- FAIL: TestC/x/y (0.00s)
        --- FAIL: TestC/x/z (0.00s)
        --- PASS: TestC/x/w (0.00s)
--- FAIL: TestE (0.00s)
--- SKIP: TestD (0.00s)
FAIL`
	var copied strings.Builder
	res, err := watch(strings.NewReader(out), &copied)
	if err != nil {
		t.Fatal(err)
	}
	if copied.String() != out {
		t.Errorf("copied %q", &copied)
	}
	if !slices.Equal(res.leaves, []string{"TestC/x/y", "TestC/x/z", "TestE"}) {
		t.Errorf("failed at the ends: %v", res.leaves)
	}
	if res.passed != 2 || res.ended != 1 || !slices.Equal(res.failed, []string{"TestC", "TestE"}) || !slices.Equal(res.skipped, []string{"TestB/one", "TestD"}) {
		t.Errorf("%+v", res)
	}
	if _, err := watch(strings.NewReader(out), failing{}); err == nil {
		t.Error("a failure to write was lost")
	}
}

// TestAgain: only few failures of programs that ran to their end, on a flaky
// driver, are tried again, without the subtests that passed.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		driver string
		res    results
		want   string
	}{
		{"siw", results{failed: []string{"TestA", "TestB"}, leaves: []string{"TestA/C-Go_[x]", "TestB"}, ended: 2}, `^TestA$/^C-Go_\[x\]$|^TestB$`},
		{"siw", results{ended: 2}, ""},
		{"siw", results{failed: []string{"TestA"}, ended: 1}, ""},
		{"siw", results{failed: []string{"TestA"}, skipped: []string{"TestB"}, ended: 2}, ""},
		{"siw", results{failed: []string{"TestA", "TestB", "TestC", "TestD", "TestE", "TestF"}, ended: 2}, ""},
		{"siw", results{failed: []string{"TestA", "TestSoak"}, ended: 2}, ""},
		{"rxe", results{failed: []string{"TestA"}, ended: 2}, ""},
	} {
		if got := c.res.again(c.driver, 2); got != c.want {
			t.Errorf("%s %+v: %q, want %q", c.driver, c.res, got, c.want)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
