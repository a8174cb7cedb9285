// SPDX-License-Identifier: Apache-2.0

// Package longtest marks the tests that take long. They run only where the
// environment variable RDMA_LONG_TESTS is set to 1, as "make test-all" sets it.
// The variable reaches the tests of every package, on this machine and in the
// micro-VM, and "go test" takes it into account when it caches results.
package longtest

import (
	"os"
	"testing"
)

// variable is the environment variable that enables the long tests.
const variable = "RDMA_LONG_TESTS"

// Notice begins the message of a test that Need skips. The program that runs the
// tests in the micro-VM, where no other test may skip itself, looks for it.
const Notice = "long test: "

// Enabled reports whether the long tests run. A test that has a short and a long
// form chooses its size by it.
func Enabled() bool { return os.Getenv(variable) == "1" }

// Need skips the test unless the long tests run. It is for tests that take more
// than some seconds and have no short form. The test's first statement calls it.
func Need(tb testing.TB) {
	tb.Helper()
	if !Enabled() {
		tb.Skip(Notice + "set " + variable + "=1")
	}
}
