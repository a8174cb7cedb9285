// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// killedCmtime returns the output of rdma-core's client, whose server was killed while it accepted 600
// connections. The client ended with status 0. The shortest disconnect is negative, and touches the column
// before it.
func killedCmtime(t *testing.T) string {
	t.Helper()
	out, err := os.ReadFile("testdata/cmtime.txt")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return string(out)
}

// TestParseCmtimeColumns parses a table whose columns touch.
func TestParseCmtimeColumns(t *testing.T) {
	got, err := parseCmtime(killedCmtime(t))
	if err != nil || got["disconnect"] != 274.84 || got["connect"] != 5566.09 || got["destroy"] != 133.74 {
		t.Errorf("parseCmtime(killed) = %v, %v, want disconnect 274.84, connect 5566.09 and destroy 133.74", got, err)
	}
}

// TestCmtimeFailures checks that failed connections are an error, although the client's status is 0.
func TestCmtimeFailures(t *testing.T) {
	const want = `connections failed: "event: RDMA_CM_EVENT_REJECTED, error: 28" in 557 lines`
	if err := cmtimeFailures(killedCmtime(t)); err == nil || err.Error() != want {
		t.Errorf("cmtimeFailures(killed) = %v, want %s", err, want)
	}
	const failed = "failure creating qp: Cannot allocate memory\nRDMA_CM_EVENT_ADDR_ERROR, error: -110\n"
	if err := cmtimeFailures(failed); err == nil {
		t.Errorf("cmtimeFailures(%q) = nil, want an error", failed)
	}
	_, table, _ := strings.Cut(killedCmtime(t), "disconnecting\n")
	if err := cmtimeFailures("connecting\ndisconnecting\n" + table); err != nil {
		t.Errorf("cmtimeFailures(table) = %v, want nil", err)
	}
}
