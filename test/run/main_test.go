// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
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
=== RUN   TestLong
    l_test.go:1: long test: set RDMA_LONG_TESTS=1
--- SKIP: TestLong (0.00s)
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

// TestAgain: only few failures of programs that ran to their end are tried again,
// without the subtests that passed.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		res  results
		want string
	}{
		{results{failed: []string{"TestA", "TestB"}, leaves: []string{"TestA/C-Go_[x]", "TestB"}, ended: 2}, `^TestA$/^C-Go_\[x\]$|^TestB$`},
		{results{ended: 2}, ""},
		{results{failed: []string{"TestA"}, ended: 1}, ""},
		{results{failed: []string{"TestA"}, skipped: []string{"TestB"}, ended: 2}, ""},
		{results{failed: []string{"TestA", "TestB", "TestC", "TestD", "TestE", "TestF"}, ended: 2}, ""},
	} {
		if got := c.res.again(2); got != c.want {
			t.Errorf("%+v: %q, want %q", c.res, got, c.want)
		}
	}
}

// TestRounds: a test that passes the second time makes the run pass where two
// rounds are allowed, and the output names it. The machine is a script here.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		rounds int
		driver string
		test   string
		passes int // the round that it passes in
		want   bool
	}{
		{1, "rxe", "TestA", 1, true},
		{1, "rxe", "TestA", 2, false},
		{2, "rxe", "TestA", 2, true},
		{2, "rxe", "TestA", 3, false},
		{1, "siw", "TestA", 3, true},
		{2, "siw", "TestA", 4, false},
		{1, "siw", "TestSoak", 2, false},
		{2, "siw", "TestSoak", 2, true},
	} {
		dir := t.TempDir()
		script := fmt.Sprintf(`#!/bin/sh
echo >>%[1]s/boots
if [ $(wc -l <%[1]s/boots) -ge %[2]d ]; then
	printf -- '--- PASS: %[3]s (0.00s)\nPASS\n'
else
	printf -- '--- FAIL: %[3]s (0.00s)\n    --- FAIL: %[3]s/part (0.00s)\nFAIL\n'
	exit 1
fi
`, dir, c.passes, c.test)
		vm := filepath.Join(dir, "rdmavm")
		if err := os.WriteFile(vm, []byte(script), 0o777); err != nil {
			t.Fatal(err)
		}
		run := config{rdmavm: vm, bins: dir, rounds: c.rounds}
		list := []command{{Args: []string{"tests"}}}
		if err := run.bootUntilPassed(t.Context(), c.driver, list); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if again := slices.Contains(list[0].Args, "-test.run=^"+c.test+"$/^part$"); again != (c.passes > 1 && (c.rounds > 1 || c.driver == "siw" && c.test != soak)) {
			t.Errorf("%+v: last run was %q", c, list[0].Args)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
