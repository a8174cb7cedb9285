// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runScript runs a row whose virtual machine is a shell script, with n test programs. It
// returns the output, and whether the run succeeded.
func runScript(t *testing.T, script string, n int) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	vm := filepath.Join(dir, "rdmavm")
	if err := os.WriteFile(vm, []byte("#!/bin/sh\n"+script), 0o777); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	r := parse([]string{"-rdmavm", vm, "-bin", dir})[0]
	for i := range n {
		r.programs = append(r.programs, program{pkg: fmt.Sprintf("pkg%d", i+1), dir: dir, args: []string{"./program"}, tests: 2})
	}
	var out strings.Builder
	rep := newReport(&out, []*row{r})
	if err := r.runVM(t.Context(), rep); err != nil {
		t.Fatalf("r.runVM: %v", err)
	}
	ok := rep.close()
	return out.String(), ok
}

// TestRowInTheVM checks the report for the output of a virtual machine.
func TestRowInTheVM(t *testing.T) {
	const start, end = "echo 'rdmavm: [1/1] /dir: program'\n", "echo 'rdmavm: [1/1] ok, 1.50 s'\n"
	mark := func(lines string) string { // in the form of -test.v=test2json
		var b strings.Builder
		for line := range strings.Lines(lines) {
			if trimmed := strings.TrimLeft(line, " "); strings.HasPrefix(trimmed, "---") {
				line = "\x16" + trimmed
			} else if strings.HasPrefix(line, "===") || line == "PASS\n" || line == "FAIL\n" {
				line = "\x16" + line
			}
			b.WriteString(line)
		}
		return "cat <<'EOF'\n" + b.String() + "EOF\n"
	}
	const passes = "=== RUN   TestA\n    a_test.go:1: quiet\n--- PASS: TestA (0.00s)\n"
	for name, tc := range map[string]struct {
		script  string
		last    string
		has     []string
		without []string
	}{
		"a test passes": {
			start + mark(passes+"PASS\n") + end,
			"1 passed, 0 failed", []string{"ok    pkg1", "1 passed, 0 failed, 1.5s"}, []string{"quiet", "FAIL"},
		},
		"a test fails": {
			start + mark(passes+"=== RUN   TestB\n    b_test.go:1: wrong\n--- FAIL: TestB (0.00s)\nFAIL\n") + "echo 'rdmavm: [1/1] exit status 1, 1.50 s'\nexit 1\n",
			"1 passed, 1 failed", []string{"b_test.go:1: wrong", "FAIL  pkg1", "failed:\n  Linux 6.1, rxe: pkg1.TestB"}, []string{"quiet"},
		},
		"a subtest fails": {
			start + mark("=== RUN   TestB\n=== RUN   TestB/sub\n    b_test.go:1: wrong\n    --- FAIL: TestB/sub (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n") + "echo 'rdmavm: [1/1] exit status 1, 1.50 s'\nexit 1\n",
			"0 passed, 1 failed", []string{"b_test.go:1: wrong"}, nil,
		},
		"a test skips itself": {
			start + mark(passes+"=== RUN   TestB\n    b_test.go:1: no device\n--- SKIP: TestB (0.00s)\nPASS\n") + end,
			"1 passed, 1 failed", []string{"no device", "TestB skipped itself"}, nil,
		},
		"a subtest skips itself": {
			start + mark("=== RUN   TestB\n=== RUN   TestB/sub\n    b_test.go:1: no device\n    --- SKIP: TestB/sub (0.00s)\n--- PASS: TestB (0.00s)\nPASS\n") + end,
			"0 passed, 1 failed", []string{"no device", "TestB skipped itself"}, nil,
		},
		"a long test": {
			start + mark(passes+"=== RUN   TestB\n    b_test.go:1: long test: set RDMA_LONG_TESTS=1\n--- SKIP: TestB (0.00s)\nPASS\n") + end,
			"1 passed, 0 failed, 1 skipped", nil, []string{"skipped itself"},
		},
		"something is left open": {
			start + mark(passes+"PASS\nLEAK: a descriptor\n") + "echo 'rdmavm: [1/1] exit status 1, 1.50 s'\nexit 1\n",
			"1 passed, 1 failed", []string{"LEAK: a descriptor", "  Linux 6.1, rxe: pkg1\n"}, []string{"quiet"},
		},
		"a test panics": {
			start + mark(passes+"=== RUN   TestB\n    b_test.go:1: before\npanic: wrong\n\ngoroutine 1\n") + "echo 'rdmavm: [1/1] exit status 2, 1.50 s'\nexit 2\n",
			"1 passed, 1 failed", []string{"b_test.go:1: before", "panic: wrong"}, []string{"quiet"},
		},
		"the kernel reports trouble": {
			start + mark(passes+"PASS\n") + end + "echo 'rdmavm: the kernel reported trouble'\nexit 125\n",
			"1 passed, 1 failed", []string{"the kernel reported trouble", "exit status 125"}, nil,
		},
		"the machine ends early": {
			start + mark(passes+"=== RUN   TestB\n") + "exit 125\n",
			"1 passed, 2 failed", []string{"ended after 0 of 1 test programs"}, nil,
		},
		"the machine does not boot": {
			"echo 'rdmavm: no kernel'\nexit 125\n",
			"0 passed, 1 failed", []string{"rdmavm: no kernel", "ended after 0 of 1 test programs"}, nil,
		},
		"no test runs": {
			start + mark("testing: warning: no tests to run\nPASS\n") + end,
			"0 passed, 1 failed", []string{"no test ran"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, ok := runScript(t, tc.script, 1)
			if !strings.HasSuffix(out, "\n"+tc.last+"\n") {
				t.Errorf("last line of the report is not %q", tc.last)
			}
			if want := strings.Contains(tc.last, " 0 failed"); ok != want {
				t.Errorf("close = %v, want %v", ok, want)
			}
			for _, s := range tc.has {
				if !strings.Contains(out, s) {
					t.Errorf("the report lacks %q", s)
				}
			}
			for _, s := range tc.without {
				if strings.Contains(out, s) {
					t.Errorf("the report contains %q", s)
				}
			}
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

// TestLines checks that a run without failures prints at most maxLines lines for any number of
// packages. It also checks that a slow package has a line.
func TestLines(t *testing.T) {
	for _, rows := range []int{1, 5, 40} {
		var list []*row
		for i := range rows {
			list = append(list, &row{name: fmt.Sprint("row ", i), host: true})
		}
		var out strings.Builder
		r := newReport(&out, list)
		for i := range rows {
			r.beginRow(200, 0)
			for p := range 200 {
				pkg := fmt.Sprintf("purerdma/p%d", p)
				r.event(event{Action: "start", Package: pkg})
				r.event(event{Action: "run", Package: pkg, Test: "TestA"})
				r.event(event{Action: "pass", Package: pkg, Test: "TestA"})
				r.event(event{Action: "pass", Package: pkg, Elapsed: 2})
			}
			if rows <= 5 && !strings.Contains(out.String(), "  ok    p0 ") {
				t.Errorf("row %d of %d: no line of package p0", i, rows)
			}
			r.endRow("")
		}
		if !r.close() {
			t.Errorf("%d rows: close = false, want true", rows)
		}
		limit := max(maxLines, 2*rows+2)
		if n := strings.Count(out.String(), "\n"); n > limit {
			t.Errorf("%d rows: %d lines, want at most %d", rows, n, limit)
		}
		if want := fmt.Sprintf("\n%d passed, 0 failed\n", 200*rows); !strings.HasSuffix(out.String(), want) {
			t.Errorf("%d rows: last line is not %q", rows, want)
		}
	}
}

// TestSkipsOnTheHost checks that skipped tests are not counted on the host if they run in the
// virtual machine.
func TestSkipsOnTheHost(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, []*row{{name: "host", host: true}})
	r.beginRow(1, 0)
	for test, message := range map[string]string{"TestA": "needs RDMA devices: run", "TestB": "long test: set", "TestC": "no gcc"} {
		r.event(event{Action: "run", Package: "p", Test: test})
		r.event(event{Action: "output", Package: "p", Test: test, Output: message})
		r.event(event{Action: "skip", Package: "p", Test: test})
	}
	r.event(event{Action: "pass", Package: "p"})
	r.endRow("")
	if !r.close() || !strings.HasSuffix(out.String(), "\n0 passed, 0 failed, 2 skipped\n") {
		t.Errorf("close failed or counted other skips:\n%s", &out)
	}
}

// TestBuildFails checks that a package fails with the compiler's messages if its build fails.
func TestBuildFails(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, []*row{{name: "host", host: true}})
	r.beginRow(1, 0)
	r.event(event{Action: "build-output", ImportPath: "p [p.test]", Output: "p.go:1: no such thing\n"})
	r.event(event{Action: "build-fail", ImportPath: "p [p.test]"})
	r.event(event{Action: "start", Package: "p"})
	r.event(event{Action: "fail", Package: "p", FailedBuild: "p [p.test]"})
	r.endRow("")
	if r.close() || !strings.Contains(out.String(), "no such thing") || !strings.HasSuffix(out.String(), "\n0 passed, 1 failed\n") {
		t.Errorf("close succeeded or printed no compiler message:\n%s", &out)
	}
}
