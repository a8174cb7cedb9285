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
	if res.passed != 2 || res.failed != 1 || !slices.Equal(res.skipped, []string{"TestB/one", "TestD"}) {
		t.Errorf("%+v", res)
	}
	if _, err := watch(strings.NewReader(out), failing{}); err == nil {
		t.Error("a failure to write was lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
